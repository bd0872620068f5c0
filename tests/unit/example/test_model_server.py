"""The stand-in for a model keeps its limits: slots, tokens a second, a short queue."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest

from example_project.model_server import Model, make_app


def client(**limits) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(make_app(**limits))
    return httpx.AsyncClient(transport=transport, base_url="http://model/v1")


async def ask(model: httpx.AsyncClient, max_tokens: int = 3, **more) -> httpx.Response:
    asked = {"messages": [{"role": "user", "content": "why"}], "max_tokens": max_tokens}
    return await model.post("/chat/completions", json={**asked, **more})


def test_it_answers_at_once_or_as_a_stream_in_openais_words() -> None:
    async def run():
        async with client(tokens_per_second=1e6) as model:
            return await ask(model), await ask(model, stream=True), await model.get("/models")

    whole, stream, models = asyncio.run(run())
    text = whole.json()["choices"][0]["message"]["content"]
    assert len(text.split()) == 3
    *parts, end = [line.removeprefix("data: ") for line in stream.text.split("\n") if line]
    deltas = [json.loads(part)["choices"][0]["delta"] for part in parts]
    assert "".join(delta.get("content", "") for delta in deltas) == text
    assert end == "[DONE]"
    assert [one["id"] for one in models.json()["data"]] == ["stand-in"]


def test_it_refuses_what_it_has_neither_a_slot_nor_a_place_for() -> None:
    async def run():
        async with client(slots=1, queue=1, tokens_per_second=100) as model:
            first, second = (asyncio.create_task(ask(model, 20)) for _ in range(2))
            await asyncio.sleep(0.05)  # both are there: each takes 0.2 s
            refused = await ask(model)
            return refused, await first, await second, await ask(model)

    refused, *taken = asyncio.run(run())
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert {reply.status_code for reply in taken} == {200}


def test_those_who_talk_at_once_share_its_tokens() -> None:
    async def run():
        async with client(slots=4, tokens_per_second=200) as model:
            started = time.monotonic()
            await asyncio.gather(*(ask(model, 20) for _ in range(4)))
            return time.monotonic() - started

    assert asyncio.run(run()) >= 4 * 20 / 200 * 0.75  # the last ones have it for themselves


def test_whoever_goes_away_leaves_his_slot() -> None:
    async def run():
        model = Model(1, 0, 1000)
        tokens = model.tokens(100)
        await anext(tokens)
        assert model.is_full
        await tokens.aclose()
        waiting = model.tokens(1)
        return model.is_full, [token async for token in waiting]

    full, tokens = asyncio.run(run())
    assert not full
    assert len(tokens) == 1


@pytest.mark.parametrize("body", ["", "[]", "null", '{"max_tokens": "many"}'])
def test_what_it_cant_read_is_the_clients_error(body: str) -> None:
    async def run():
        async with client() as model:
            return await model.post("/chat/completions", content=body)

    reply = asyncio.run(run())
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"
