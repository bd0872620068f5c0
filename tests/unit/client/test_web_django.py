"""Django: what a request publishes, through Django's own handlers, sync and async."""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from celery import Celery

from celery_fair import Fair, SettingsError
from tests.unit.client.djangos import configured

override_settings = configured()

from django.db import connection, connections  # noqa: E402 - they need the settings
from django.http import Http404, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.test import AsyncClient, Client  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402

from celery_fair.integrations.django import (  # noqa: E402
    batch_view,
    check_settings,
    fair_middleware,
    interactive_view,
)

MIDDLEWARE = ["celery_fair.integrations.django.fair_middleware"]
HEADERS = {"X-Fair-Kind": "batch", "X-Fair-Tenant": "acme", "X-Request-ID": "r1"}
TOLD = ("batch", "acme", "r1")
NOTHING = ("interactive", None, None)

Site = Callable[..., Any]


@pytest.fixture
def site() -> Iterator[Site]:
    """Make a site of views by path, with our middleware and some settings."""
    scopes = []

    def make(views: dict[str, Any], **options: Any) -> None:
        urls: Any = types.ModuleType("urls")
        urls.urlpatterns = [path(name, view) for name, view in views.items()]
        scope = override_settings(**{"ROOT_URLCONF": urls, "MIDDLEWARE": MIDDLEWARE, **options})
        scope.enable()
        scopes.append(scope)

    yield make
    for scope in reversed(scopes):
        scope.disable()
    connection.close()


@pytest.fixture
def whose(sent: Any) -> Callable[[], dict[str, Any]]:
    """Return (kind, tenant, request id) by task."""
    return lambda: {m.task: (m.kind, m.header.tenant, m.header.request_id) for m in sent()}


@pytest.fixture
def publishing(app: Celery, fair: Fair) -> Callable[..., Any]:
    def view(request: Any, name: str = "x") -> HttpResponse:
        app.send_task(name)
        return HttpResponse()

    return view


def lane(request: Any) -> Any:
    """A team's own FAIR_KIND."""
    return request.GET.get("lane")


def test_what_a_request_publishes_has_its_kind_tenant_and_id(
    app: Celery, site: Site, publishing: Any, whose: Any
) -> None:
    site(
        {"": publishing, "reports/1": publishing, "reports/marked": interactive_view(publishing)},
        FAIR_TRUST_HEADER=True,
        FAIR_PATHS={"/reports/*": "batch"},
    )
    found = {}
    for url, headers in [("/", HEADERS), ("/reports/1", {}), ("/reports/marked", {}), ("/", {})]:
        assert Client().get(url, headers=headers).status_code == 200
        found[url, bool(headers)] = whose()["x"]
    assert found == {
        ("/", True): TOLD,
        ("/reports/1", False): ("batch", None, None),
        ("/reports/marked", False): NOTHING,
        ("/", False): NOTHING,
    }
    app.send_task("after")
    assert whose() == {"after": NOTHING}


def test_every_option_has_its_setting(site: Site, publishing: Any, whose: Any) -> None:
    names = {"FAIR_HEADER": "X-A", "FAIR_TENANT_HEADER": "X-B", "FAIR_REQUEST_ID_HEADER": "X-C"}
    site({"": publishing}, FAIR_TRUST_HEADER=("kind", "tenant", "request_id"), **names)
    Client().get("/", headers={"X-A": "batch", "X-B": "acme", "X-C": "r1"})
    assert whose() == {"x": TOLD}
    asks = {"FAIR_KIND": lane, "FAIR_TENANT": lambda _: 7, "FAIR_REQUEST_ID": lambda _: "own"}
    site({"": publishing}, **asks)
    Client().get("/?lane=batch", headers=HEADERS)
    assert whose() == {"x": ("batch", "7", "own")}


def test_callables_may_be_named_by_their_path(site: Site, publishing: Any, whose: Any) -> None:
    site({"": publishing}, FAIR_KIND=f"{__name__}.lane")
    Client().get("/?lane=batch")
    assert whose() == {"x": ("batch", None, None)}


def test_a_path_that_leads_nowhere_is_an_error_at_the_start(publishing: Any) -> None:
    refused = pytest.raises(SettingsError, match="FAIR_KIND: expected a callable or its path")
    with override_settings(FAIR_KIND="celery_fair.nowhere"), refused:
        fair_middleware(publishing)


def test_a_view_of_a_class_can_be_marked(site: Site, publishing: Any, whose: Any) -> None:
    @method_decorator(batch_view, name="dispatch")
    class Reports(View):
        def get(self, request: Any) -> HttpResponse:
            return publishing(request)

    @method_decorator(batch_view, name="dispatch")
    class AsyncReports(View):
        async def get(self, request: Any) -> HttpResponse:
            await asyncio.sleep(0)
            return publishing(request)

    site({"a": Reports.as_view(), "b": AsyncReports.as_view()}, MIDDLEWARE=[])
    for url in ("/a", "/b"):
        asyncio.run(AsyncClient().get(url))
        assert whose() == {"x": ("batch", None, None)}, url


@pytest.mark.parametrize("between", [[], ["django.middleware.common.CommonMiddleware"]])
def test_async_and_sync_views_under_asgi(
    site: Site, publishing: Any, whose: Any, between: list[str]
) -> None:
    async def threaded(request: Any) -> HttpResponse:
        return await sync_to_async(publishing)(request, "threaded")

    async def awaited(request: Any) -> HttpResponse:
        await asyncio.sleep(0)
        return publishing(request, "awaited")

    site(
        {"threaded": threaded, "awaited": awaited, "x": publishing},
        FAIR_TRUST_HEADER=True,
        MIDDLEWARE=[*between, *MIDDLEWARE, *between],
    )

    async def visit() -> None:
        for name in ("threaded", "awaited", "x"):
            assert (await AsyncClient().get(f"/{name}", headers=HEADERS)).status_code == 200

    asyncio.run(visit())
    assert whose() == {"threaded": TOLD, "awaited": TOLD, "x": TOLD}


def test_many_async_requests_keep_apart(site: Site, publishing: Any, whose: Any) -> None:
    inside: list[str] = []

    async def view(request: Any, name: str) -> HttpResponse:
        inside.append(name)
        while len(inside) < 50:
            await asyncio.sleep(0)
        return publishing(request, name)

    site({"<name>": view}, FAIR_TRUST_HEADER=True)
    told = {str(n): (("interactive", "batch")[n % 2], f"t{n % 7}", f"r{n}") for n in range(50)}

    async def visit_all() -> None:
        client = AsyncClient()
        requests = [
            client.get(f"/{name}", headers=dict(zip(HEADERS, values, strict=True)))
            for name, values in told.items()
        ]
        await asyncio.gather(*requests)

    asyncio.run(visit_all())
    assert whose() == told


@pytest.fixture
def mail(make_app: Any) -> Any:
    """A task of an app as it is under Celery's Django fixup."""
    app = make_app()
    app.task_cls = "celery.contrib.django.task:DjangoTask"
    Fair(app)

    @app.task(name="mail")
    def mail() -> None: ...

    return mail


@pytest.mark.parametrize("headers", [HEADERS, {}], ids=["told", "marked"])
def test_at_the_commit_of_atomic_requests_a_view_is_over_and_what_it_said_holds(
    site: Site, mail: Any, sent: Any, whose: Any, monkeypatch: pytest.MonkeyPatch, headers: Any
) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    waited = []

    @batch_view
    def view(request: Any) -> HttpResponse:
        mail.delay_on_commit()
        waited.append(sent())
        return HttpResponse()

    site({"": view}, FAIR_TRUST_HEADER=True)
    assert Client().get("/", headers=headers).status_code == 200
    assert waited == [[]]
    assert whose() == {"mail": TOLD if headers else ("batch", None, None)}


def test_a_view_that_fails_leaves_nothing_behind(
    app: Celery, fair: Fair, site: Site, whose: Any
) -> None:
    def broken(request: Any) -> HttpResponse:
        raise ZeroDivisionError

    def missing(request: Any) -> HttpResponse:
        raise Http404

    site({"broken": broken, "missing": missing}, FAIR_TRUST_HEADER=True)
    client = Client(raise_request_exception=False)
    for url, status in [("/broken", 500), ("/missing", 404)]:
        assert client.get(url, headers=HEADERS).status_code == status
    app.send_task("after")
    assert whose() == {"after": NOTHING}


def test_a_streamed_response_is_made_after_the_request_unless_it_takes_the_context_along(
    app: Celery, fair: Fair, site: Site, whose: Any
) -> None:
    """As docs/web.md says."""

    def view(request: Any) -> StreamingHttpResponse:
        in_request = contextvars.copy_context().run

        def lines() -> Iterator[str]:
            app.send_task("bare")
            yield "one"
            in_request(app.send_task, "taken along")

        return StreamingHttpResponse(lines())

    site({"": view}, FAIR_TRUST_HEADER=True)
    assert Client().get("/", headers=HEADERS).getvalue() == b"one"
    assert whose() == {"bare": NOTHING, "taken along": TOLD}


def test_djangos_checks_name_each_bad_rule() -> None:
    bad = {"FAIR_TRUST_HEADER": "false", "FAIR_PATHS": {"/x": "bulk"}, "FAIR_TENANT": 3}
    with override_settings(**bad):
        errors = check_settings()
        with pytest.raises(SettingsError, match="FAIR_TRUST_HEADER: expected True, False or"):
            fair_middleware(lambda request: None)
    assert [(error.id, error.msg.partition(":")[0]) for error in errors] == [
        ("celery_fair.E002", "FAIR_TRUST_HEADER"),
        ("celery_fair.E002", "FAIR_TENANT"),
        ("celery_fair.E002", "FAIR_PATHS"),
    ]
    with override_settings(FAIR_PATHS={"/x": "batch"}, FAIR_TRUST_HEADER=["kind"]):
        assert check_settings() == []
