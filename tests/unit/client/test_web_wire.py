"""Hostile requests byte by byte, through the parsers of the servers that the frameworks bring."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from flask import Flask
from werkzeug.serving import make_server

from celery_fair import Fair
from celery_fair.integrations import batch_view
from celery_fair.integrations.flask import FairFlask
from tests.unit.client.djangos import configured

override_settings = configured()

from django.core.handlers.wsgi import WSGIHandler  # noqa: E402 - they need the settings
from django.core.servers.basehttp import WSGIRequestHandler, WSGIServer  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

MARKED = ("batch", None, None)


def flask_server(view: Callable[[], None], trust: Any) -> Any:
    web = Flask("web")
    fair = Fair.of(view.app)  # type: ignore[attr-defined]
    assert fair is not None
    FairFlask(fair, trust_header=trust, kind=lambda _: None).init_app(web)
    web.get("/")(lambda: view() or "served")
    return make_server("127.0.0.1", 0, web)


class urls:  # noqa: N801 - it stands for a module
    """Django's; `test_web_wire` has one view at a time."""

    urlpatterns: list[Any] = []  # noqa: RUF012


def django_server(view: Callable[[], None], trust: Any) -> Any:
    urls.urlpatterns = [path("", lambda request: HttpResponse(view() or "served"))]
    server = WSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
    server.set_app(WSGIHandler())
    return server


@pytest.fixture(params=[flask_server, django_server])
def serve(request: Any, app: Celery, fair: Fair, sent: Any) -> Callable[..., Any]:
    """Send the lines of a request; returns its status, and what a view marked batch published."""

    def serve(*lines: bytes, trust: Any = True) -> Any:
        @batch_view
        def view() -> None:
            app.send_task("x")

        view.app = app
        settings = {
            "ROOT_URLCONF": urls,
            "MIDDLEWARE": ["celery_fair.integrations.django.fair_middleware"],
            "FAIR_TRUST_HEADER": trust,
            "FAIR_KIND": lambda _: None,
        }
        with override_settings(**settings):
            answer = exchange(request.param(view, trust), lines)
        published = [(m.kind, m.header.tenant, m.header.request_id) for m in sent()]
        return int(answer.split(b" ", 2)[1]), published

    return serve


def exchange(server: Any, lines: tuple[bytes, ...]) -> bytes:
    raw = b"\r\n".join((b"GET / HTTP/1.1", b"Host: x", b"Connection: close", *lines, b"", b""))
    try:
        with socket.create_connection(server.server_address, timeout=10) as client:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            server.handle_request()
            return client.makefile("rb").read()
    finally:
        server.server_close()


def test_a_trusted_header_is_believed(serve: Any) -> None:
    lines = (b"x-fair-kind: interactive", b"X-FAIR-TENANT:acme", b"X-Request-Id: r1")
    assert serve(*lines) == (200, [("interactive", "acme", "r1")])
    assert serve(*lines, trust=False) == (200, [MARKED])


@pytest.mark.parametrize(
    "lines",
    [
        (b"X-Fair-Kind: batch", b"X-Fair-Kind: interactive"),
        (b"X-Fair-Kind: interactive", b"x-fair-kind: interactive"),
        (b"X-Fair-Tenant: acme", b"X-Fair-Tenant: evil"),
        (b"X-Fair-Kind: interactive,",),
        (b"X-Fair-Kind: batch", b" interactive"),  # a folded line
        (b"X-Fair-Kind: interactive\x00",),
        (b"X-Fair-Kind: \xe2\x80\x8binteractive",),
        (b"X-Fair-Tenant: \xd9\xa1\xd9\xa2",),
        (b"X-Request-ID: " + b"r" * 257,),
        (b"X-Fair-Kind : interactive",),
    ],
)
def test_a_doubtful_one_says_nothing(serve: Any, lines: tuple[bytes, ...]) -> None:
    status, published = serve(*lines)
    assert (status, published) in [(200, [MARKED]), (400, [])], "refused by the server, or ignored"


def test_a_value_can_bring_no_header_of_its_own(serve: Any) -> None:
    """A bare line feed ends a line for some parsers; what follows is then a client's own header."""
    status, published = serve(b"X-Other: a\nX-Fair-Tenant: evil", trust=["kind"])
    assert (status, published) in [(200, [MARKED]), (400, [])]


def test_a_huge_value_is_refused_or_ignored(serve: Any) -> None:
    status, published = serve(b"X-Fair-Tenant: " + b"a" * 60_000)
    assert (status, published) in [(200, [MARKED]), (400, []), (431, [])]


def test_these_servers_drop_the_twin_with_underscores(serve: Any) -> None:
    """As docs/web.md says."""
    assert serve(b"X_Fair_Kind: interactive", b"X_Fair_Tenant: evil") == (200, [MARKED])
