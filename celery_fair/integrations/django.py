"""Django: a middleware, the view decorators, and checks of ``CELERY_FAIR`` and ``FAIR_…``.

``INSTALLED_APPS += ["celery_fair.integrations.django.FairConfig"]`` gives the checks, of the app
too (`django_checks`),
``MIDDLEWARE += ["celery_fair.integrations.django.fair_middleware"]`` what the settings ask for:
``FAIR_TRUST_HEADER``, ``FAIR_KIND`` and the other keywords of `RequestRules`, with ``FAIR_`` before
them and in capitals. Callables get Django's request, and may be named by their dotted path.

``urlpatterns += jobs_urls(fair, "jobs", decorate=login_required, tasks=[…])`` lets clients submit
jobs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from asgiref.sync import iscoroutinefunction
from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.http import HttpResponse
from django.urls import URLPattern, path
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string

from celery_fair import Fair, FairSettings, QueueFull, SettingsError
from celery_fair.integrations import RequestRules, batch_view, interactive_view, kind_view
from celery_fair.integrations.answering import JsonAnswer
from celery_fair.integrations.django_checks import TAG, check_app, check_notes
from celery_fair.integrations.full import refusal
from celery_fair.integrations.jobs import Asked, JobsApi

__all__ = (
    "FairConfig",
    "batch_view",
    "fair_middleware",
    "interactive_view",
    "jobs_urls",
    "kind_view",
)

CALLABLES: Final = ("kind", "tenant", "request_id")
OPTIONS: Final = (
    "trust_header",
    "header",
    "tenant_header",
    "request_id_header",
    *CALLABLES,
    "paths",
    "full_status",
)


@sync_and_async_middleware
def fair_middleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Serve requests in the scope that the settings find for them; raises `SettingsError`.

    It belongs behind what finds out who is logged in, if a callable needs that. A `QueueFull` that
    leaves a view is answered.
    """
    rules = rules_of_settings()

    def refuse(_: Any, error: Exception) -> HttpResponse | None:
        if not isinstance(error, QueueFull):
            return None
        return _response(refusal(error, rules.full_status))

    def scope(request: Any) -> AbstractContextManager[None]:
        return rules.serving(request, request.path_info, request.headers.get)

    if iscoroutinefunction(get_response):

        async def serve_async(request: Any) -> Any:
            with scope(request):
                return await get_response(request)

        serve_async.process_exception = refuse  # type: ignore[attr-defined]
        return serve_async

    def serve(request: Any) -> Any:
        with scope(request):
            return get_response(request)

    serve.process_exception = refuse  # type: ignore[attr-defined]
    return serve


def _response(answer: JsonAnswer) -> HttpResponse:
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))


def jobs_urls(
    fair: Fair, at: str, *, decorate: Callable[[Any], Any] | None = None, **options: Any
) -> list[URLPattern]:
    """Return the addresses of jobs, at ``jobs`` and below it; more are the keywords of `JobsApi`.

    They ask for no login: whoever reaches them may submit jobs. ``decorate`` gets the view, and is
    the place for ``login_required``. Django's CSRF check holds for them as for any view.
    """
    api = JobsApi(fair, **options)

    def jobs(request: Any, below: str = "") -> HttpResponse:
        return _response(
            api.answer(
                Asked(
                    request.method, below, request.path, request.GET, request.headers.get,
                    request.read,
                )
            )
        )  # fmt: skip

    view = jobs if decorate is None else decorate(jobs)
    return [path(at, view), path(f"{at}/<path:below>", view)]


def rules_of_settings() -> RequestRules:
    """Return the rules that Django's settings make; raises `SettingsError` with their names."""
    names = {option: f"FAIR_{option.upper()}" for option in OPTIONS}
    said = {o: getattr(settings, name) for o, name in names.items() if hasattr(settings, name)}
    try:
        return RequestRules(**{option: _loaded(option, value) for option, value in said.items()})
    except SettingsError as error:
        raise SettingsError(list(_in_djangos_words(error.problems))) from None


def _loaded(option: str, value: Any) -> Any:
    if option not in CALLABLES or not isinstance(value, str):
        return value
    try:
        return import_string(value)
    except ImportError as error:
        raise SettingsError([f"{option}: expected a callable or its path: {error}"]) from error


def _in_djangos_words(problems: tuple[str, ...]) -> Iterator[str]:
    for problem in problems:
        option, _, rest = problem.partition(":")
        yield f"FAIR_{option.upper()}:{rest}"


class FairConfig(AppConfig):
    """Checks the settings with Django's own checks, before anything is served or migrated."""

    name = "celery_fair.integrations.django"
    label = "celery_fair"
    verbose_name = "celery-fair"

    def ready(self) -> None:
        """Register the checks, as ``manage.py check --tag celery_fair`` runs them alone."""
        checks.register(check_settings, TAG)
        checks.register(check_app, TAG)
        checks.register(check_notes, TAG, deploy=True)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """Return one error for each bad setting."""
    found: list[checks.CheckMessage] = []
    try:
        FairSettings.load(getattr(settings, "CELERY_FAIR", {}), {}, os.environ)
    except SettingsError as error:
        found += [checks.Error(problem, id="celery_fair.E001") for problem in error.problems]
    try:
        rules_of_settings()
    except SettingsError as error:
        found += [checks.Error(problem, id="celery_fair.E002") for problem in error.problems]
    return found
