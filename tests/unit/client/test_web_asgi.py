"""The ASGI middleware, on the bare protocol: what frameworks build on, and none of them is here."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair, SettingsError
from celery_fair.integrations.asgi import FairMiddleware, batch_view, interactive_view


def http(path: str = "/", headers: Any = (), **more: Any) -> dict[str, Any]:
    return {"type": "http", "path": path, "headers": list(headers), **more}


def told(kind: str, tenant: str = "", request_id: str = "") -> list[tuple[bytes, bytes]]:
    names = (b"x-fair-kind", b"x-fair-tenant", b"x-request-id")
    return list(zip(names, (kind.encode(), tenant.encode(), request_id.encode()), strict=True))


async def nothing(*_: Any) -> dict[str, Any]:
    return {}


def whose(sent: Any) -> dict[str, tuple[str | None, str | None, str | None]]:
    """Return (kind, tenant, request id) by task."""
    return {m.task: (m.kind, m.header.tenant, m.header.request_id) for m in sent()}


@pytest.fixture
def serve(app: Celery, fair: Fair, sent: Any) -> Callable[..., Any]:
    """Serve one request by an app that publishes x; returns what it was published with."""

    async def plain(scope: Any, receive: Any, send: Any) -> None:
        app.send_task("x")

    def serve(scope: dict[str, Any], inner: Any = plain, **rules: Any) -> Any:
        asyncio.run(FairMiddleware(inner, **rules)(scope, nothing, nothing))
        return whose(sent)["x"]

    return serve


def test_what_a_request_publishes_has_its_kind_tenant_and_id(serve: Any) -> None:
    scope = http(headers=told("batch", "acme", "r1"))
    assert serve(scope) == ("interactive", None, None)
    assert serve(scope, trust_header=True) == ("batch", "acme", "r1")


def test_an_endpoints_mark_is_weaker_than_the_header(app: Celery, serve: Any) -> None:
    @interactive_view
    async def endpoint(*_: Any) -> None:
        await asyncio.sleep(0)
        app.send_task("x")

    scope = http(headers=told("batch"))
    assert serve(scope, endpoint)[0] == "interactive"
    assert serve(scope, endpoint, trust_header=True)[0] == "batch"
    assert serve(http(), endpoint, paths={"/": "batch"})[0] == "interactive"


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/reports/1", "", "batch"),
        ("/api/reports/1", "/api", "batch"),
        ("/reports/1", "/api", "batch"),
        ("/apireports/1", "/api", "interactive"),
        ("/api/reports/1", "", "interactive"),
    ],
)
def test_a_path_is_the_one_inside_the_app(serve: Any, path: str, root: str, expected: str) -> None:
    assert serve(http(path, root_path=root), paths={"/reports/*": "batch"})[0] == expected


def test_the_mount_itself_is_the_apps_root(serve: Any) -> None:
    assert serve(http("/api", root_path="/api/"), paths={"/": "batch"})[0] == "batch"


def test_callables_get_the_scope(serve: Any) -> None:
    scope = http(user={"tenant": "acme"})
    assert serve(scope, tenant=lambda scope: scope["user"]["tenant"])[1] == "acme"


def test_many_requests_at_once_keep_apart(app: Celery, fair: Fair, sent: Any) -> None:
    """200 of mixed kinds, each publishing from everywhere a request's code may run."""
    chance = random.Random(5)
    order = list(range(200))
    chance.shuffle(order)
    requests = {n: told(("interactive", "batch")[n % 2], f"t{n % 7}", f"r{n}") for n in order}
    inside: list[str] = []

    @batch_view  # weaker than the header, in every one of them
    async def endpoint(scope: Any, receive: Any, send: Any) -> None:
        number = scope["path"][1:]
        app.send_task(f"{number}:before")
        inside.append(number)
        while len(inside) < len(requests):  # all are inside, so that each could see another's
            await asyncio.sleep(0)
        for _ in range(chance.randrange(5)):
            await asyncio.sleep(0)
        app.send_task(f"{number}:after")
        started = asyncio.create_task(later(f"{number}:task"))
        await asyncio.to_thread(app.send_task, f"{number}:thread")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        await asyncio.sleep(0)
        app.send_task(f"{number}:background")  # as Starlette's background tasks: after the response
        await started

    async def later(name: str) -> None:
        await asyncio.sleep(0)
        app.send_task(name)

    async def serve_all() -> None:
        middleware = FairMiddleware(endpoint, trust_header=True)
        scopes = [http(f"/{n}", headers) for n, headers in requests.items()]
        await asyncio.gather(*(middleware(scope, nothing, nothing) for scope in scopes))
        app.send_task("outside")

    asyncio.run(serve_all())
    found = whose(sent)
    assert found.pop("outside") == ("interactive", None, None)
    places = ("before", "after", "task", "thread", "background")
    assert found == {
        f"{n}:{place}": (("interactive", "batch")[n % 2], f"t{n % 7}", f"r{n}")
        for n in order
        for place in places
    }


def test_a_mark_reaches_as_far_as_its_view_runs_and_the_rest_goes_on(
    app: Celery, fair: Fair, sent: Any
) -> None:
    """As docs/web.md says: a background task runs after the view, in its request."""

    @batch_view
    async def view() -> None:
        app.send_task("view")

    async def endpoint(*_: Any) -> None:
        await view()
        app.send_task("background")

    scope = http(headers=told("", "acme"))
    asyncio.run(FairMiddleware(endpoint, trust_header=True)(scope, nothing, nothing))
    expected = {"view": ("batch", "acme", None), "background": ("interactive", "acme", None)}
    assert whose(sent) == expected


def test_a_websocket_is_served_in_its_scope_as_long_as_it_lives(
    app: Celery, fair: Fair, sent: Any
) -> None:
    async def chat(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            app.send_task(message["text"])

    async def talk() -> None:
        texts = [{"type": "websocket.receive", "text": text} for text in ("one", "two")]
        messages = iter([*texts, {"type": "websocket.disconnect"}])

        async def receive() -> Any:
            await asyncio.sleep(0)
            return next(messages)

        scope = {**http("/chat", told("interactive", "acme")), "type": "websocket"}
        rules = {"trust_header": True, "paths": {"/chat": "batch"}}
        await FairMiddleware(chat, **rules)(scope, receive, nothing)

    asyncio.run(talk())
    assert whose(sent) == {name: ("interactive", "acme", None) for name in ("one", "two")}


def test_lifespan_goes_through_as_it_came(app: Celery, fair: Fair) -> None:
    seen = []

    async def inner(*arguments: Any) -> None:
        seen.append(arguments)

    scope = {"type": "lifespan"}  # no path, no headers
    asyncio.run(FairMiddleware(inner, trust_header=True)(scope, nothing, nothing))
    ((found, receive, send),) = seen
    assert found is scope
    assert receive is send is nothing


def test_what_the_app_raises_goes_on_and_leaves_nothing_behind(
    app: Celery, fair: Fair, sent: Any
) -> None:
    scope = http(headers=told("batch", "acme"))

    async def serve() -> None:
        for error in (ZeroDivisionError, asyncio.CancelledError):

            async def ends(*_: Any, error: type[BaseException] = error) -> None:
                raise error

            with pytest.raises(error):
                await FairMiddleware(ends, trust_header=True)(scope, nothing, nothing)
        app.send_task("x")

    asyncio.run(serve())
    assert whose(sent) == {"x": ("interactive", None, None)}


def test_bad_rules_are_an_error_at_the_start() -> None:
    with pytest.raises(SettingsError, match="paths"):
        FairMiddleware(nothing, paths={"/": "bulk"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="trust_headers"):
        FairMiddleware(nothing, trust_headers=True)  # type: ignore[arg-type]
