"""Django: the view decorators, a middleware for a trusted header, and a check of ``CELERY_FAIR``.

``INSTALLED_APPS += ["celery_fair.integrations.django.FairConfig"]`` gives the check,
``MIDDLEWARE += ["celery_fair.integrations.django.fair_middleware"]`` with
``FAIR_TRUST_HEADER = True`` the header (``FAIR_HEADER``, by default ``X-Fair-Kind``).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.exceptions import MiddlewareNotUsed
from django.utils.decorators import sync_and_async_middleware

from celery_fair import FairSettings, SettingsError
from celery_fair.integrations import (
    DEFAULT_HEADER,
    batch_view,
    interactive_view,
    kind_view,
    request_kind,
)

__all__ = ("FairConfig", "batch_view", "fair_middleware", "interactive_view", "kind_view")


@sync_and_async_middleware
def fair_middleware(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Let a request inherit the kind in its header.

    Trust a header only behind a proxy that removes it from what comes from outside: with it, anyone
    could call bulk interactive.
    """
    if not getattr(settings, "FAIR_TRUST_HEADER", False):
        raise MiddlewareNotUsed("FAIR_TRUST_HEADER isn't set: no header is trusted")
    header = getattr(settings, "FAIR_HEADER", DEFAULT_HEADER)

    if iscoroutinefunction(get_response):

        async def serve_async(request: Any) -> Any:
            with request_kind(request.headers.get(header)):
                return await get_response(request)

        return serve_async

    def serve(request: Any) -> Any:
        with request_kind(request.headers.get(header)):
            return get_response(request)

    return serve


class FairConfig(AppConfig):
    """Checks ``CELERY_FAIR`` with Django's own checks, before anything is served or migrated."""

    name = "celery_fair.integrations.django"
    label = "celery_fair"
    verbose_name = "celery-fair"

    def ready(self) -> None:
        checks.register(check_settings)


def check_settings(**_: Any) -> list[checks.CheckMessage]:
    """Return one error for each bad setting."""
    try:
        FairSettings.load(getattr(settings, "CELERY_FAIR", {}), {}, os.environ)
    except SettingsError as error:
        return [checks.Error(problem, id="celery_fair.E001") for problem in error.problems]
    return []
