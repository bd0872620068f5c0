"""ASGI (FastAPI, Starlette, Quart, Litestar …): a middleware, and the view decorators.

``app.add_middleware(FairMiddleware, paths={"/reports/*": "batch"})``, or for an app that knows no
middleware ``app = FairMiddleware(app, …)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from celery_fair import QueueFull
from celery_fair.integrations import RequestRules, batch_view, interactive_view, kind_view
from celery_fair.integrations.full import TRY_AGAIN_LATER, Refusal, refusal
from celery_fair.integrations.rules import Get

__all__ = ("FairMiddleware", "batch_view", "interactive_view", "kind_view")

Scope = MutableMapping[str, Any]
ASGIApp = Callable[[Scope, Any, Any], Awaitable[None]]


class FairMiddleware:
    """Serves HTTP requests and websockets in the scope that `RequestRules` finds for them.

    It awaits the app in the same context and changes no message. So the scope holds in what the
    app starts from there, in background tasks after the response and as long as a websocket lives.
    Servers run each request in a context of its own, which is what keeps many at once apart.

    A `QueueFull` that leaves the app is answered, as long as no response has begun.

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
        answer = _Answer(scope, send)
        with self.rules.serving(scope, _path(scope), _header(scope)):
            try:
                await self.app(scope, receive, answer.send)
            except QueueFull as error:
                if not await answer.refuse(refusal(error, self.rules.full_status)):
                    raise


class _Answer:
    """What the app has sent so far: it decides what can still be said."""

    def __init__(self, scope: Scope, send: Any) -> None:
        self._scope = scope
        self._send = send
        self._last = ""

    async def send(self, message: Any) -> None:
        self._last = message["type"]
        await self._send(message)

    async def refuse(self, answer: Refusal) -> bool:
        """Answer in place of the app; False where it is too late for that."""
        if self._scope["type"] == "http":
            return not self._last and await self._respond(answer, "http.response")
        if self._last in ("", "websocket.accept", "websocket.send"):
            if not self._last and "websocket.http.response" in (
                self._scope.get("extensions") or {}
            ):
                return await self._respond(answer, "websocket.http.response")
            close = {"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": "queue_full"}
            await self._send(close)  # before it is accepted, the server makes a 403 of it
            return True
        return False

    async def _respond(self, answer: Refusal, type: str) -> bool:
        raw = [(k.lower().encode(), v.encode()) for k, v in answer.headers.items()]
        await self._send({"type": f"{type}.start", "status": answer.status, "headers": raw})
        body = b"" if self._scope.get("method") == "HEAD" else answer.body
        await self._send({"type": f"{type}.body", "body": body})
        return True


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
