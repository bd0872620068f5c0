"""The answer where a view would publish more than may wait, in each framework."""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response

from celery_fair import Fair, QueueFull, SettingsError
from celery_fair.integrations import RequestRules
from celery_fair.integrations.asgi import FairMiddleware
from celery_fair.integrations.flask import FairFlask
from tests.unit.client.djangos import configured

override_settings = configured()

from django.http import HttpResponse  # noqa: E402 - they need the settings
from django.test import AsyncClient, Client  # noqa: E402
from django.urls import re_path  # noqa: E402

FULL = QueueFull("batch", 4711, 815, 6.2)
SAID = {
    "error": "queue_full",
    "source": "scheduler",
    "kind": "batch",
    "retry_after_seconds": 7,
    "detail": "Too much batch work waits already; try again in 7 s.",
}
HOSTILE = {"X-Fair-Kind": "evil", "X-Request-ID": "evil", "User-Agent": "evil"}
PATH = "/evil"

Answer = tuple[int, dict[str, str], bytes]
Ask = Callable[..., Answer]


def refuse(*_: Any, **__: Any) -> Any:
    raise FULL


async def refuse_async(*_: Any, **__: Any) -> Any:
    raise FULL


def by_flask(method: str = "GET", **rules: Any) -> Answer:
    web = Flask("web")
    web.add_url_rule("/<path:_>", view_func=refuse, methods=["GET", "POST"])
    FairFlask(Fair(), **rules).init_app(web)
    answer = web.test_client().open(PATH, method=method, headers=HOSTILE)
    return answer.status_code, dict(answer.headers), answer.data


def _django(client: Any, view: Any, method: str, rules: dict[str, Any]) -> Any:
    urls: Any = types.ModuleType("urls")
    urls.urlpatterns = [re_path(".*", view)]
    options = {f"FAIR_{name.upper()}": value for name, value in rules.items()}
    middleware = ["celery_fair.integrations.django.fair_middleware"]
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=middleware, **options):
        answer = getattr(client, method.lower())(PATH, headers=HOSTILE)
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer


def by_django(method: str = "GET", **rules: Any) -> Answer:
    answer = _django(Client(), refuse, method, rules)
    return answer.status_code, dict(answer.headers), answer.content


def by_async_django(method: str = "GET", **rules: Any) -> Answer:
    answer = _django(AsyncClient(), refuse_async, method, rules)
    return answer.status_code, dict(answer.headers), answer.content


def asgi(inner: Any, scope: dict[str, Any], **rules: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    full = {"path": "/evil", "headers": [(b"x-fair-kind", b"evil")], **scope}
    asyncio.run(FairMiddleware(inner, **rules)(full, None, send))
    return sent


def by_asgi(method: str = "GET", **rules: Any) -> Answer:
    start, body = asgi(refuse_async, {"type": "http", "method": method}, **rules)
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    headers = {name.decode().title(): value.decode() for name, value in start["headers"]}
    return start["status"], headers, body["body"]


@pytest.fixture(params=[by_flask, by_django, by_async_django, by_asgi])
def ask(request: Any) -> Ask:
    asked: Ask = request.param
    return asked


def test_a_client_learns_who_refused_and_when_to_come_again(ask: Ask) -> None:
    status, headers, body = ask()
    assert status == 429
    assert headers["Retry-After"] == "7"
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    assert int(headers["Content-Length"]) == len(body)
    assert json.loads(body) == SAID


def test_nothing_of_the_request_or_of_the_load_is_in_it(ask: Ask) -> None:
    status, headers, body = ask("POST", trust_header=True)
    said = f"{headers} {body!r}"
    assert status == 429
    assert not any(word in said for word in ("evil", "4711", "815"))


def test_a_head_request_gets_the_headers_alone(ask: Ask) -> None:
    status, headers, body = ask("HEAD")
    assert (status, headers["Retry-After"], body) == (429, "7", b"")


def test_the_status_may_be_503(ask: Ask) -> None:
    assert ask(full_status=503)[0] == 503


@pytest.mark.parametrize("status", [500, 200, "429", True, None])
def test_another_status_is_refused(status: Any) -> None:
    with pytest.raises(SettingsError, match="full_status: expected 429 or 503, got"):
        RequestRules(full_status=status)


def test_what_else_goes_wrong_is_left_alone() -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asgi(broken, {"type": "http"})

    def view(_: Any) -> HttpResponse:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _django(Client(), view, "GET", {})


@pytest.mark.parametrize("before", [True, False])
def test_a_flask_app_may_have_an_answer_of_its_own(before: bool) -> None:
    web = Flask("web")
    web.add_url_rule("/", view_func=refuse)
    fair = FairFlask(Fair())
    if not before:
        fair.init_app(web)
    web.register_error_handler(QueueFull, lambda error: Response(f"{error.backlog}", 418))
    if before:
        fair.init_app(web)
    answer = web.test_client().get("/")
    assert (answer.status_code, answer.data) == (418, b"4711")


def test_a_response_that_has_begun_is_not_answered_again() -> None:
    seen = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        seen.append("started")
        raise FULL

    with pytest.raises(QueueFull):
        asgi(inner, {"type": "http"})
    assert seen == ["started"]


def websocket(*messages: str, **scope: Any) -> list[dict[str, Any]]:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send({"type": message})
        raise FULL

    return asgi(inner, {"type": "websocket", **scope})


@pytest.mark.parametrize(
    "before", [[], ["websocket.accept"], ["websocket.accept", "websocket.send"]]
)
def test_a_websocket_is_closed_with_try_again_later(before: list[str]) -> None:
    *earlier, close = websocket(*before)
    assert [message["type"] for message in earlier] == before
    assert close == {"type": "websocket.close", "code": 1013, "reason": "queue_full"}


def test_a_websocket_that_is_not_accepted_is_answered_where_the_server_can() -> None:
    start, body = websocket(extensions={"websocket.http.response": {}})
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 429)
    assert (body["type"], json.loads(body["body"])) == ("websocket.http.response.body", SAID)


def test_a_websocket_that_is_closed_is_not_closed_again() -> None:
    with pytest.raises(QueueFull):
        websocket("websocket.accept", "websocket.close")
