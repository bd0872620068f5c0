"""Flask: ``FairFlask(fair, paths={"/reports/*": "batch"}).init_app(app)``, and view decorators.

``app.register_blueprint(jobs_blueprint(fair, tasks=[…]), url_prefix="/jobs")`` lets clients submit
jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any, Final

from flask import Blueprint, Flask, Response, request

from celery_fair import Fair, QueueFull
from celery_fair.integrations import RequestRules, batch_view, interactive_view, kind_view
from celery_fair.integrations.answering import JsonAnswer
from celery_fair.integrations.full import refusal
from celery_fair.integrations.jobs import Asked, JobsApi

__all__ = ("FairFlask", "batch_view", "interactive_view", "jobs_blueprint", "kind_view")

#: Of which those that aren't for it are refused in JSON too.
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")

#: Where a request's environment keeps what ends with it.
_ENDS: Final = "celery_fair.ends"


class FairFlask:
    """Ties a `Fair` to Flask apps, as ``app.extensions["celery_fair"]``, and requests to kinds.

    ``rules`` are the keywords of `RequestRules`; callables get Flask's ``request``. The rules are
    asked in the order in which ``before_request`` functions are registered: call ``init_app`` after
    what finds out who is logged in, if a callable needs that.

    Shared tasks (`fair_task` makes them) look for their app by thread: call
    ``celery_app.set_default()`` once, as Flask's own page on Celery says, or a request's thread
    publishes to Celery's default broker.

    A `QueueFull` that leaves a view is answered, unless the app has a handler of its own for it.
    """

    def __init__(self, fair: Fair, **rules: Any) -> None:
        self.fair = fair
        self.rules = RequestRules(**rules)

    def init_app(self, app: Flask) -> None:
        """Install into a Flask app; several apps may share one of these."""
        app.extensions["celery_fair"] = self.fair
        if QueueFull not in app.error_handler_spec[None][None]:  # a team's own stays
            app.register_error_handler(QueueFull, self._refuse)
        if self.rules:
            # The way in which Flask's own pages add a WSGI middleware.
            app.wsgi_app = _ending(app.wsgi_app)  # type: ignore[method-assign]
            app.before_request(self._enter)

    def _refuse(self, error: QueueFull) -> Response:
        return _response(refusal(error, self.rules.full_status))

    def _enter(self) -> None:
        ends: ExitStack | None = request.environ.get(_ENDS)
        if ends is not None:  # there is none in `test_request_context`, which serves nothing
            ends.enter_context(self.rules.serving(request, request.path, request.headers.get))


def _ending(serve: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Let a request's scope end with the call that serves it.

    A teardown function isn't called where one before it raises, and is called for a copy of the
    request's context while the request goes on. An environment is one request's alone.
    """

    def serve_and_end(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with ExitStack() as ends:
            ends.callback(environ.pop, _ENDS, None)
            environ[_ENDS] = ends
            return serve(environ, start_response)

    return serve_and_end


def _response(answer: JsonAnswer) -> Response:
    return Response(answer.body, answer.status, dict(answer.headers))


def jobs_blueprint(fair: Fair, *, name: str = "celery_fair_jobs", **options: Any) -> Blueprint:
    """Return a blueprint of the addresses of jobs; ``options`` are the keywords of `JobsApi`.

    It asks for no login: whoever reaches it may submit jobs. Its ``before_request`` is the place to
    ask who that is.
    """
    api = JobsApi(fair, **options)
    blueprint = Blueprint(name, __name__)

    @blueprint.route("", methods=METHODS, defaults={"path": ""})
    @blueprint.route("/<path:path>", methods=METHODS)
    def jobs(path: str) -> Response:
        url = request.script_root + request.path
        query, get = request.args, request.headers.get
        return _response(api.answer(Asked(request.method, path, url, query, get, _read)))

    return blueprint


def _read(most: int) -> bytes:
    """Read the body, also if something before has read it; of one that is too long, a part."""
    length = request.content_length
    if length is not None and length <= most:
        return request.get_data()
    return request.stream.read(most)
