"""Strangers' requests: no one makes himself interactive, another tenant or another request."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from flask import Flask
from werkzeug.test import EnvironBuilder

from celery_fair import Fair
from celery_fair.integrations import batch_view, words
from celery_fair.integrations.asgi import FairMiddleware
from celery_fair.integrations.flask import FairFlask
from tests.unit.client.djangos import configured

override_settings = configured()

from django.core.handlers.asgi import ASGIRequest  # noqa: E402 - they need the settings
from django.core.handlers.wsgi import WSGIRequest  # noqa: E402

from celery_fair.integrations.django import fair_middleware  # noqa: E402

Headers = list[tuple[str, str]]
Serve = Callable[..., Any]

#: What a view marked batch publishes, whoever asks.
MARKED = ("batch", None, None)

STRANGERS: dict[str, Headers] = {
    "plain": [("X-Fair-Kind", "interactive"), ("X-Fair-Tenant", "acme"), ("X-Request-ID", "r1")],
    "case": [("x-FAIR-kind", "INTERACTIVE"), ("X-FAIR-TENANT", "acme")],
    "other names": [("X-Kind", "interactive"), ("Fair", "interactive 0"), ("Kind", "interactive")],
    "our own": [("fair", 'interactive 1 {"tenant":"acme"}'), ("Celery-Fair-Decided", "1")],
}

#: Also where the headers are trusted, these say nothing.
UNUSABLE: dict[str, Headers] = {
    "sent twice": [("X-Fair-Kind", "batch"), ("X-Fair-Kind", "interactive")],
    "sent twice alike": [("X-Fair-Kind", "interactive"), ("X-Fair-Kind", "interactive")],
    "comma list": [("X-Fair-Kind", "interactive, batch"), ("X-Fair-Tenant", "acme, evil")],
    "two tenants": [("X-Fair-Tenant", "acme"), ("X-Fair-Tenant", "evil")],
    "two ids": [("X-Request-ID", "r1"), ("X-Request-ID", "r2")],
    "a megabyte": [(name, "a" * 2**20) for name in ("X-Fair-Kind", "X-Fair-Tenant")],
    "a megabyte of blanks": [("X-Fair-Tenant", " " * 2**20 + "\t")],
    "one too long": [("X-Fair-Tenant", "a" * 257), ("X-Request-ID", "1" * 257)],
    "line breaks": [
        ("X-Fair-Kind", "interactive\r\n"),
        ("X-Fair-Tenant", "acme\r\nX-Fair-Kind: x"),
    ],
    "other breaks": [("X-Fair-Kind", "interactive\x0b"), ("X-Request-ID", "r1\x85r2")],
    "nul": [("X-Fair-Kind", "interactive\x00"), ("X-Fair-Tenant", "\x00")],
    "hard blanks": [("X-Fair-Kind", "\xa0interactive"), ("X-Fair-Tenant", "\xa0acme")],
    "digits of another script": [("X-Request-ID", "١٢٣"), ("X-Fair-Tenant", "７")],
    "letters of another script": [("X-Fair-Kind", "ınteractive"), ("X-Fair-Tenant", "аcme")],
    "not words": [("X-Fair-Kind", "interactive;q=1"), ("X-Fair-Kind-2", "interactive")],
    "our line": [("X-Fair-Kind", 'interactive 1 {"covers_children":true}')],
    "empty": [("X-Fair-Kind", ""), ("X-Fair-Tenant", ""), ("X-Request-ID", " ")],
}

#: The only sentences about it; there is no room for a value in them.
SAID = re.compile(
    r"the header (X-Fair-Kind|X-Fair-Tenant|X-Request-ID) was ignored "
    r"\(1 so far in this process\): "
    rf"expected ({re.escape(words.EXPECTED_KIND)}|{re.escape(words.EXPECTED_HEADER)})"
)

ROWS = [
    *((False, headers) for headers in (*STRANGERS.values(), *UNUSABLE.values())),
    *((True, headers) for headers in UNUSABLE.values()),
]
IDS = [
    *(f"not trusted, {name}" for name in (*STRANGERS, *UNUSABLE)),
    *(f"trusted, {name}" for name in UNUSABLE),
]


def raw(value: str) -> bytes:
    """Return a header's value as it comes over the wire."""
    return value.encode("latin-1" if max(value, default="") <= "\xff" else "utf-8")


def environ(headers: Headers, path: str = "/") -> dict[str, Any]:
    """Return what a WSGI server makes of a request: it joins a name's values with commas."""
    found: dict[str, Any] = {}
    for name, value in headers:
        key = "HTTP_" + name.upper().replace("-", "_")
        text = raw(value).decode("latin-1")
        found[key] = f"{found[key]},{text}" if key in found else text
    return {**EnvironBuilder(path=path).get_environ(), **found}


def scope(headers: Headers, path: str = "/") -> dict[str, Any]:
    pairs = [(name.lower().encode("latin-1"), raw(value)) for name, value in headers]
    return {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": pairs}


def flask(view: Any, headers: Headers, rules: dict[str, Any]) -> None:
    web = Flask("web")
    fair = Fair.of(view.app)
    assert fair is not None
    FairFlask(fair, **rules).init_app(web)
    web.get("/")(lambda: view())
    statuses = []
    list(web.wsgi_app(environ(headers), lambda status, headers: statuses.append(status)))
    assert statuses == ["200 OK"]


def django(view: Any, headers: Headers, rules: dict[str, Any], request: Any = None) -> None:
    made = WSGIRequest(environ(headers)) if request is None else request
    with override_settings(**{f"FAIR_{name.upper()}": value for name, value in rules.items()}):
        serve = fair_middleware(lambda request: view())
    assert serve(made) == "served"


def django_asgi(view: Any, headers: Headers, rules: dict[str, Any]) -> None:
    django(view, headers, rules, ASGIRequest(scope(headers), None))


def asgi(view: Any, headers: Headers, rules: dict[str, Any]) -> None:
    async def inner(*_: Any) -> None:
        view()

    asyncio.run(FairMiddleware(inner, **rules)(scope(headers), None, None))


@pytest.fixture(params=[flask, django, django_asgi, asgi])
def serve(request: Any, app: Celery, fair: Fair, sent: Any) -> Serve:
    """Serve a request by a view marked batch, in each framework; returns what it published."""

    def serve(headers: Headers, **rules: Any) -> Any:
        @batch_view
        def view() -> str:
            app.send_task("x")
            return "served"

        view.app = app
        # A rule that says nothing, so that the integration is there at all.
        request.param(view, headers, {"kind": lambda _: None, **rules})
        (message,) = sent()
        return message.kind, message.header.tenant, message.header.request_id

    return serve


@pytest.mark.parametrize(("trusted", "headers"), ROWS, ids=IDS)
def test_a_stranger_changes_nothing(
    serve: Serve, caplog: pytest.LogCaptureFixture, trusted: bool, headers: Headers
) -> None:
    caplog.set_level(logging.DEBUG, "celery_fair")
    assert serve(headers, trust_header=trusted) == MARKED
    said = [r.getMessage() for r in caplog.records if r.name.startswith("celery_fair")]
    assert all(SAID.fullmatch(line) for line in said)


def test_only_the_header_that_is_trusted_is_believed(serve: Serve) -> None:
    assert serve(STRANGERS["plain"], trust_header=["request_id"]) == ("batch", None, "r1")
    assert serve(STRANGERS["plain"], trust_header=["tenant"]) == ("batch", "acme", None)
    assert serve(STRANGERS["plain"], trust_header=True) == ("interactive", "acme", "r1")


def test_a_logged_in_tenant_stays_itself(serve: Serve) -> None:
    rules = {"trust_header": True, "tenant": lambda _: "own"}
    assert serve(STRANGERS["plain"], **rules)[1] == "own"


def test_a_value_of_just_the_length_is_taken_whole(serve: Serve) -> None:
    longest = "".join(chr(33 + n % 11) for n in range(256)).replace(",", "x")
    assert serve([("X-Request-ID", longest)], trust_header=True)[2] == longest


@pytest.mark.parametrize("serve", [django_asgi, asgi], indirect=True)
def test_under_asgi_an_underscore_is_no_hyphen(serve: Serve) -> None:
    """A proxy that removes X-Fair-Kind may let X_Fair_Kind through; a WSGI app can't tell them."""
    headers = [("X_Fair_Kind", "interactive"), ("X_Fair_Tenant", "acme")]
    assert serve(headers, trust_header=True) == MARKED
