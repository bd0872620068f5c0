"""Flask: ``FairFlask(fair, trust_header=True).init_app(flask_app)``, and the view decorators."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from flask import Flask, g, request

from celery_fair import Fair
from celery_fair.integrations import (
    DEFAULT_HEADER,
    batch_view,
    interactive_view,
    kind_view,
    request_kind,
)

__all__ = ("FairFlask", "batch_view", "interactive_view", "kind_view")


class FairFlask:
    """Ties a `Fair` to a Flask app: ``app.extensions["celery_fair"]``, and a header if trusted.

    Shared tasks (`fair_task` makes them) look for their app by thread: call
    ``celery_app.set_default()`` once, as Flask's own page on Celery says, or a request's thread
    publishes to Celery's default broker.

    Trust a header only behind a proxy that removes it from what comes from outside: with it, anyone
    could call bulk interactive.
    """

    def __init__(
        self, fair: Fair, *, trust_header: bool = False, header: str = DEFAULT_HEADER
    ) -> None:
        self.fair = fair
        self.trust_header = trust_header
        self.header = header

    def init_app(self, app: Flask) -> None:
        """Install into a Flask app."""
        app.extensions["celery_fair"] = self.fair
        if self.trust_header:
            app.before_request(self._enter)
            app.teardown_request(self._leave)

    def _enter(self) -> None:
        g.celery_fair = ExitStack()
        g.celery_fair.enter_context(request_kind(request.headers.get(self.header)))

    def _leave(self, error: BaseException | None = None) -> None:
        scope: Any = g.pop("celery_fair", None)
        if scope is not None:
            scope.close()
