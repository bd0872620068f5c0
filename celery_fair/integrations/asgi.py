"""ASGI (FastAPI, Starlette, Quart, Litestar …): a middleware, and the view decorators.

``app.add_middleware(FairMiddleware, paths={"/reports/*": "batch"})``, or for an app that knows no
middleware ``app = FairMiddleware(app, …)``. ``app.mount("/jobs", JobsApp(fair, tasks=[…]))`` lets
clients submit jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from celery_fair import Fair, QueueFull
from celery_fair.integrations import RequestRules, batch_view, interactive_view, kind_view
from celery_fair.integrations.answering import JsonAnswer
from celery_fair.integrations.full import TRY_AGAIN_LATER, refusal
from celery_fair.integrations.jobs import Asked, JobsApi
from celery_fair.integrations.rules import Get

__all__ = ("FairMiddleware", "JobsApp", "batch_view", "interactive_view", "kind_view")

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

    async def refuse(self, answer: JsonAnswer) -> bool:
        """Answer in place of the app; False where it is too late for that."""
        if self._scope["type"] == "http":
            return not self._last and await _respond(
                self._scope, self._send, answer, "http.response"
            )
        if self._last in ("", "websocket.accept", "websocket.send"):
            if not self._last and "websocket.http.response" in (
                self._scope.get("extensions") or {}
            ):
                return await _respond(self._scope, self._send, answer, "websocket.http.response")
            close = {"type": "websocket.close", "code": TRY_AGAIN_LATER, "reason": "queue_full"}
            await self._send(close)  # before it is accepted, the server makes a 403 of it
            return True
        return False


async def _respond(scope: Scope, send: Any, answer: JsonAnswer, type: str) -> bool:
    raw = [(k.lower().encode(), v.encode()) for k, v in answer.headers.items()]
    await send({"type": f"{type}.start", "status": answer.status, "headers": raw})
    body = b"" if scope.get("method") == "HEAD" else answer.body
    await send({"type": f"{type}.body", "body": body})
    return True


class JobsApp:
    """The addresses of jobs, to be mounted; ``options`` are the keywords of `JobsApi`.

    It asks for no login: whoever reaches it may submit jobs. A middleware around it is the place to
    ask who that is. It asks Redis and the broker in a thread, so that no loop waits.
    """

    def __init__(self, fair: Fair, **options: Any) -> None:
        self._api = JobsApi(fair, **options)
        self._longest = self._api.max_bytes + 1

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve."""
        if scope["type"] != "http":
            return
        body = await _body(receive, self._longest)
        if body is None:
            return
        path, root = _path(scope), scope.get("root_path", "").rstrip("/")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        asked = Asked(scope["method"], path, root + path, query, _header(scope), lambda _: body)
        answer = await asyncio.to_thread(self._api.answer, asked)
        await _respond(scope, send, answer, "http.response")


async def _body(receive: Any, most: int) -> bytes | None:
    """Read so much of the body at most; None for a client that has gone."""
    body, more = bytearray(), True
    while more and len(body) < most:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body[:most])


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
