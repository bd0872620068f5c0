"""Request ids that come with web requests: a stranger's does nothing, a tenant's is his own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import fakeredis
import pytest
from celery import Celery
from flask import Flask

from celery_fair import Fair
from celery_fair.integrations.asgi import FairMiddleware
from celery_fair.integrations.flask import FairFlask
from celery_fair.internals import Connected
from celery_fair.state import State

Ask = Callable[..., str]

#: The server's own knowledge of who asks.
WHO = {"token-of-acme": "acme", "token-of-globex": "globex"}


@pytest.fixture
def shop(app: Celery) -> Celery:
    client = fakeredis.FakeRedis()
    fair = Fair(app, deduplicate_seconds=60)
    fair.identity._state = State(lambda: Connected(client, "", client.close))
    return app


def publish(app: Celery) -> str:
    id: str = app.send_task("answer", ("the same question",)).id
    return id


def flask_ask(app: Celery, **rules: Any) -> Ask:
    web = Flask("web")

    def tenant(request: Any) -> str | None:
        return WHO.get(request.headers.get("Authorization", ""))

    FairFlask(Fair.of(app), tenant=tenant, **rules).init_app(web)
    web.add_url_rule("/", view_func=lambda: publish(app))
    client = web.test_client()
    return lambda **headers: client.get("/", headers=_named(headers)).text


def asgi_ask(app: Celery, **rules: Any) -> Ask:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": publish(app).encode()})

    def tenant(scope: Any) -> str | None:
        return WHO.get(dict(scope["headers"]).get(b"authorization", b"").decode())

    web = FairMiddleware(serve, tenant=tenant, **rules)

    def ask(**headers: str) -> str:
        told = bytearray()
        raw = [(name.lower().encode(), said.encode()) for name, said in _named(headers).items()]

        async def send(message: Any) -> None:
            told.extend(message.get("body", b""))

        asyncio.run(web({"type": "http", "path": "/", "headers": raw}, None, send))
        return told.decode()

    return ask


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): said for name, said in headers.items()}


@pytest.fixture(params=[flask_ask, asgi_ask], ids=["flask", "asgi"])
def serving(request: pytest.FixtureRequest, shop: Celery) -> Callable[..., Ask]:
    return lambda **rules: request.param(shop, **rules)


def test_an_id_in_a_header_that_nobody_trusts_does_nothing(serving: Any, sent: Any) -> None:
    ask = serving()
    assert ask(X_Request_ID="r1") != ask(X_Request_ID="r1")
    assert [message.header.once for message in sent()] == [None, None]


def test_an_id_in_a_trusted_header_makes_one_of_a_request_sent_twice(
    serving: Any, sent: Any
) -> None:
    ask = serving(trust_header=["request_id"])
    assert ask(X_Request_ID="r1") == ask(X_Request_ID="r1")
    assert len(sent()) == 1


def test_nobody_is_handed_another_tenants_result(serving: Any) -> None:
    ask = serving(trust_header=["request_id"])
    acme, globex = (
        ask(X_Request_ID="r1", Authorization=f"token-of-{who}") for who in ("acme", "globex")
    )
    nobody = ask(X_Request_ID="r1")
    assert len({acme, globex, nobody}) == 3
    # Saying that one is acme in a header is not being acme.
    assert ask(X_Request_ID="r1", X_Fair_Tenant="acme") == nobody
    assert ask(X_Request_ID="r1", Authorization="token-of-acme") == acme


@pytest.mark.parametrize("id", ["r1,r1", "x" * 257, "", " "])
def test_an_id_that_cannot_be_used_makes_nothing_one(serving: Any, id: str) -> None:
    ask = serving(trust_header=True)
    assert ask(X_Request_ID=id) != ask(X_Request_ID=id)


def test_the_header_of_a_message_in_a_web_request_is_a_strangers_too(
    serving: Any, sent: Any
) -> None:
    ask = serving(trust_header=True)
    line = 'interactive 1 {"once":"mine","request_id":"r1"}'
    assert ask(Fair=line) != ask(Fair=line)
    assert [message.header.once for message in sent()] == [None, None]
