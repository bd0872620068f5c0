"""A stand-in for a model, with a real one's limits: ``python -m example_project.model_server``.

It speaks the part of OpenAI's API that the tasks use, so MODEL_URL may name a real server instead.
Starlette on uvicorn, since a model server is mostly waiting with many streams open.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

NAME = "stand-in"
SLOTS, QUEUE = 6, 4
SAYS = (
    "I am a stand-in and know nothing, but I take as long as a model does: each word comes when it "
    "is its turn, and the more of us are talking at once, the slower each of us is."
)


class Model:
    """So many requests at once, so many tokens a second for all of them, and a short queue."""

    def __init__(self, slots: int, queue: int, tokens_per_second: float) -> None:
        self._free = asyncio.Semaphore(slots)
        self._queue = queue
        self._tokens_per_second = tokens_per_second
        self._waiting = self._running = 0

    @property
    def is_full(self) -> bool:
        """Whether one more would have to wait, where no more may wait."""
        return self._free.locked() and self._waiting >= self._queue

    async def tokens(self, number: int) -> AsyncIterator[str]:
        """Say so many words, once there is a slot."""
        async with self._slot():
            for word in islice(cycle(SAYS.split()), number):
                await asyncio.sleep(self._running / self._tokens_per_second)
                yield f"{word} "

    def metrics(self) -> str:
        """What vLLM says of itself on such a page, as far as a load probe asks."""
        figures = {"running": self._running, "waiting": self._waiting}
        return "".join(
            f"# TYPE vllm:num_requests_{name} gauge\n"
            f'vllm:num_requests_{name}{{model_name="{NAME}"}} {number}\n'
            for name, number in figures.items()
        )

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        self._running += 1
        try:
            yield
        finally:  # also when whoever asked has gone
            self._running -= 1
            self._free.release()


def chunk(choice: dict[str, Any], kind: str = "chat.completion") -> dict[str, Any]:
    """Return an answer, or a part of one, in OpenAI's words."""
    about = {"id": "chatcmpl-0", "object": kind, "created": int(time.time()), "model": NAME}
    return {**about, "choices": [{"index": 0, **choice}]}


def refusal(status: int, kind: str, message: str, **headers: str) -> JSONResponse:
    """Return an error in OpenAI's words."""
    error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, headers)


async def stream(tokens: AsyncIterator[str]) -> AsyncIterator[str]:
    """Send each token as an event, and then that it was all."""
    part = "chat.completion.chunk"
    async for token in tokens:
        yield f"data: {json.dumps(chunk({'delta': {'content': token}}, part))}\n\n"
    yield f"data: {json.dumps(chunk({'delta': {}, 'finish_reason': 'stop'}, part))}\n\n"
    yield "data: [DONE]\n\n"


async def complete(request: Request) -> Response:
    """Answer ``POST /v1/chat/completions``, at once or as a stream."""
    model: Model = request.app.state.model
    try:
        asked = await request.json()
        number = min(int(asked.get("max_tokens", 50)), 1000)
    except (ValueError, TypeError, AttributeError):
        return refusal(400, "invalid_request_error", "expected a JSON object")
    if model.is_full:
        return refusal(429, "rate_limit_error", "too many requests", **{"Retry-After": "2"})
    if asked.get("stream"):
        return StreamingResponse(stream(model.tokens(number)), media_type="text/event-stream")
    text = "".join([token async for token in model.tokens(number)])
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return JSONResponse({**chunk(choice), "usage": {"completion_tokens": number}})


async def models(request: Request) -> JSONResponse:
    """Answer ``GET /v1/models``."""
    return JSONResponse({"object": "list", "data": [{"id": NAME, "object": "model"}]})


async def metrics(request: Request) -> Response:
    """Answer ``GET /metrics``."""
    return PlainTextResponse(request.app.state.model.metrics())


def make_app(slots: int = SLOTS, queue: int = QUEUE, tokens_per_second: float = 200.0) -> Starlette:
    """Return the server as an ASGI app."""
    completions = Route("/v1/chat/completions", complete, methods=["POST"])
    pages = [Route("/v1/models", models), Route("/metrics", metrics)]
    app = Starlette(routes=[completions, *pages])
    app.state.model = Model(slots, queue, tokens_per_second)
    return app


if __name__ == "__main__":
    host = os.environ.get("MODEL_HOST", "127.0.0.1")
    port = int(os.environ.get("MODEL_PORT", "8001"))
    uvicorn.run(make_app(), host=host, port=port, log_level="warning")
