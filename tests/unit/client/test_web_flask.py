"""Flask: what a request publishes, and that no request leaves anything behind for the next."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery, Task
from flask import (
    Flask,
    Response,
    abort,
    copy_current_request_context,
    current_app,
    g,
    request,
    stream_with_context,
)

from celery_fair import Fair
from celery_fair.integrations.flask import FairFlask, batch_view, interactive_view

HEADERS = {"X-Fair-Kind": "batch", "X-Fair-Tenant": "acme", "X-Request-ID": "r1"}
TOLD = ("batch", "acme", "r1")
NOTHING = ("interactive", None, None)


@pytest.fixture
def web() -> Flask:
    web = Flask("web")
    web.testing = True
    return web


@pytest.fixture
def whose(sent: Any) -> Callable[[], dict[str, Any]]:
    """Return (kind, tenant, request id) by task."""
    return lambda: {m.task: (m.kind, m.header.tenant, m.header.request_id) for m in sent()}


def test_what_a_request_publishes_has_its_kind_tenant_and_id(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    FairFlask(fair, trust_header=True, paths={"/reports/*": "batch"}).init_app(web)

    @web.get("/<path:_>")
    def view(_: str) -> str:
        app.send_task("x")
        return ""

    @web.get("/reports/marked")
    @interactive_view
    def marked() -> str:
        app.send_task("x")
        return ""

    client = web.test_client()
    found = {}
    for path, headers in [("/a", HEADERS), ("/b", {}), ("/reports/1", {}), ("/reports/marked", {})]:
        assert client.get(path, headers=headers).status_code == 200
        found[path] = whose()["x"]
    assert found == {
        "/a": TOLD,
        "/b": NOTHING,
        "/reports/1": ("batch", None, None),
        "/reports/marked": NOTHING,
    }
    app.send_task("after")
    assert whose() == {"after": NOTHING}


def test_callables_get_flasks_request_and_what_ran_before(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    @web.before_request
    def log_in() -> None:
        g.tenant = "acme"

    rules = {
        "kind": lambda request: request.args.get("lane"),
        "tenant": lambda request: g.tenant,
        "request_id": lambda request: f"{request.method} 1",
    }
    FairFlask(fair, **rules).init_app(web)
    web.get("/")(lambda: app.send_task("x").id)
    assert web.test_client().get("/?lane=batch").status_code == 200
    assert whose() == {"x": ("batch", "acme", "GET 1")}


@pytest.mark.parametrize("path", ["/broken", "/aborted", "/none", "/hook"])
def test_a_request_that_fails_leaves_nothing_behind(
    web: Flask, app: Celery, fair: Fair, whose: Any, path: str
) -> None:
    web.testing = False
    FairFlask(fair, trust_header=True).init_app(web)

    @web.before_request
    def hook() -> None:
        app.send_task("inside")
        if request.path == "/hook":
            raise ZeroDivisionError

    @web.get("/broken")
    def broken() -> str:
        raise ZeroDivisionError

    web.get("/aborted")(lambda: abort(403))
    assert web.test_client().get(path, headers=HEADERS).status_code in (403, 404, 500)
    app.send_task("after")
    assert whose() == {"inside": TOLD, "after": NOTHING}


def test_a_teardown_that_raises_leaves_nothing_behind(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    """Flask runs teardown functions from the last to the first, and stops at one that raises."""
    FairFlask(fair, trust_header=True).init_app(web)
    web.get("/")(lambda: app.send_task("x").id)

    @web.teardown_request
    def broken(error: BaseException | None) -> None:
        if request.path == "/":
            raise ZeroDivisionError

    client = web.test_client()
    with pytest.raises(ZeroDivisionError) as error:
        client.get("/", headers=HEADERS)
    app.send_task("after")
    assert whose() == {"x": TOLD, "after": NOTHING}
    assert error  # kept until here, and every frame and context with it


def test_a_request_made_inside_another_ends_alone(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    FairFlask(fair, trust_header=True).init_app(web)

    @web.get("/outer")
    def outer() -> str:
        with web.test_client() as client:
            client.get("/inner", headers={"X-Fair-Kind": "interactive", "X-Fair-Tenant": "other"})
        app.send_task("outer")
        return ""

    web.get("/inner")(lambda: app.send_task("inner").id)
    with web.app_context():  # as tests do, and then every request shares one `g`
        web.test_client().get("/outer", headers=HEADERS)
        app.send_task("after")
    found = whose()
    assert found == {"outer": TOLD, "inner": found["inner"], "after": NOTHING}
    assert found["inner"][:2] == ("interactive", "other")


def test_requests_of_two_apps_end_alone(app: Celery, fair: Fair, whose: Any) -> None:
    one, two = Flask("one"), Flask("two")
    shared = FairFlask(fair, trust_header=True)
    for web in (one, two):
        shared.init_app(web)
    two.get("/")(lambda: app.send_task("two").id)

    @one.get("/")
    def view() -> str:
        two.test_client().get("/")
        app.send_task("one")
        return ""

    one.test_client().get("/", headers=HEADERS)
    app.send_task("after")
    assert whose() == {"one": TOLD, "two": TOLD, "after": NOTHING}


def test_a_copied_request_context_ends_without_the_request(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    FairFlask(fair, trust_header=True).init_app(web)

    @web.get("/")
    def view() -> str:
        copy_current_request_context(app.send_task)("copied here")
        app.send_task("goes on")
        thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(copy_current_request_context(app.send_task), "copied there"),
        )
        thread.start()
        thread.join()
        app.send_task("goes on after the thread")
        return ""

    web.test_client().get("/", headers=HEADERS)
    app.send_task("after")
    names = ("copied here", "goes on", "copied there", "goes on after the thread")
    assert whose() == {**dict.fromkeys(names, TOLD), "after": NOTHING}


def test_requests_in_threads_keep_apart(web: Flask, app: Celery, fair: Fair, whose: Any) -> None:
    FairFlask(fair, trust_header=True).init_app(web)
    together = threading.Barrier(8)

    @web.get("/<name>")
    def view(name: str) -> str:
        together.wait(10)
        app.send_task(name)
        together.wait(10)
        return ""

    def visit(number: int) -> None:
        headers = {**HEADERS, "X-Request-ID": f"r{number}"}
        web.test_client().get(f"/{number}", headers=headers if number % 2 else {})

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {str(n): ("batch", "acme", f"r{n}") if n % 2 else NOTHING for n in range(8)}
    assert whose() == expected


def test_a_streamed_response_is_made_after_the_request_unless_it_takes_the_context_along(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    """As docs/web.md says, of ``stream_with_context`` too."""
    FairFlask(fair, trust_header=True).init_app(web)

    @web.get("/")
    def view() -> Response:
        in_request = contextvars.copy_context().run

        def lines() -> Iterator[str]:
            app.send_task("bare")
            yield request.path
            in_request(app.send_task, "taken along")
            yield ""

        return Response(stream_with_context(lines()))

    assert web.test_client().get("/", headers=HEADERS).data == b"/"
    app.send_task("after")
    assert whose() == {"bare": NOTHING, "taken along": TOLD, "after": NOTHING}


def test_an_application_factory_makes_each_app_its_own(make_app: Any) -> None:
    def create_app(share: float) -> Flask:
        web = Flask("web")
        FairFlask(Fair(make_app(), batch_share=share), trust_header=True).init_app(web)
        return web

    made = [create_app(share) for share in (0.1, 0.3)]
    assert [web.extensions["celery_fair"].settings.batch_share for web in made] == [0.1, 0.3]


def test_the_extension_adds_no_page_and_without_rules_no_hook(web: Flask, fair: Fair) -> None:
    pages = list(web.url_map.iter_rules())
    FairFlask(fair, trust_header=True, paths={"/": "batch"}).init_app(web)
    assert list(web.url_map.iter_rules()) == pages
    plain = Flask("plain")
    FairFlask(fair).init_app(plain)
    assert not plain.before_request_funcs
    assert not plain.teardown_request_funcs


def test_tasks_run_in_an_app_context_as_flasks_own_page_has_them(
    web: Flask, make_app: Any, working: Any
) -> None:
    class FlaskTask(Task):  # type: ignore[misc]
        def __call__(self, *args: object, **kwargs: object) -> object:
            with web.app_context():
                return self.run(*args, **kwargs)

    app = make_app()
    app.task_cls = FlaskTask
    FairFlask(Fair(app), trust_header=True).init_app(web)

    @app.task
    def child() -> None: ...

    @app.task
    def parent() -> str:
        child.delay()
        return current_app.name

    @web.get("/")
    @batch_view
    def view() -> str:
        parent.delay()
        return ""

    with working(app, queues=["celery", "celery.batch"]) as log:
        web.test_client().get("/", headers={**HEADERS, "X-Fair-Kind": ""})
        ran = threading.Event()
        while "child" not in [name for name, _, _ in log.rows]:
            ran.wait(0.01)
    assert log.rows == [("parent", "celery.batch", "batch"), ("child", "celery.batch", "batch")]
    assert all('"tenant":"acme"' in row["fair"] for row in log.headers)


def test_an_async_view_publishes_in_its_request(
    web: Flask, app: Celery, fair: Fair, whose: Any
) -> None:
    FairFlask(fair, trust_header=True).init_app(web)

    @web.get("/")
    async def view() -> str:
        app.send_task("x")
        return ""

    web.test_client().get("/", headers=HEADERS)
    assert whose() == {"x": TOLD}
