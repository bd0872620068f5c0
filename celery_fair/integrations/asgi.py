"""ASGI (FastAPI, Starlette, Quart, Litestar …): a middleware, and the view decorators.

``app.add_middleware(FairMiddleware, paths={"/reports/*": "batch"})``, or for an app that knows no
middleware ``app = FairMiddleware(app, …)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from celery_fair.integrations import RequestRules, batch_view, interactive_view, kind_view
from celery_fair.integrations.rules import Get

__all__ = ("FairMiddleware", "batch_view", "interactive_view", "kind_view")

Scope = MutableMapping[str, Any]
ASGIApp = Callable[[Scope, Any, Any], Awaitable[None]]


class FairMiddleware:
    """Serves HTTP requests and websockets in the scope that `RequestRules` finds for them.

    It awaits the app in the same context and touches no message. So the scope holds in what the
    app starts from there, in background tasks after the response and as long as a websocket lives.
    Servers run each request in a context of its own, which is what keeps many at once apart.

    ``rules`` are the keywords of `RequestRules`; callables get the scope.
    """

    def __init__(self, app: ASGIApp, **rules: Any) -> None:
        self.app = app
        self.rules = RequestRules(**rules)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve."""
        if scope["type"] not in ("http", "websocket"):  # lifespan, and what may come
            await self.app(scope, receive, send)
            return
        with self.rules.serving(scope, _path(scope), _header(scope)):
            await self.app(scope, receive, send)


def _path(scope: Scope) -> str:
    """Return the path inside the app: servers differ in whether the mount is a part of it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and (path == root or path.startswith(f"{root}/")):
        return path[len(root) :] or "/"
    return path


def _header(scope: Scope) -> Get:
    def get(name: str) -> str | None:
        wanted = name.lower().encode("ascii")
        found = [value for sent, value in scope["headers"] if sent.lower() == wanted]
        return b",".join(found).decode("latin-1") if found else None

    return get
