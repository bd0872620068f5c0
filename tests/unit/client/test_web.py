"""What a request publishes inherits the request's kind, in Flask and in Django."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import markcoroutinefunction
from celery import Celery

from celery_fair import Fair, UnknownKind
from celery_fair.integrations import kind_view
from tests.unit.client.djangos import configured

ROOT = Path(__file__).parents[3]


def kinds(sent: Any) -> list[str]:
    return [message.kind for message in sent()]


# -- any framework --------------------------------------------------------------------------------


def test_a_views_kind_is_inherited_by_what_it_publishes(app: Celery, fair: Fair, sent: Any) -> None:
    @kind_view("batch")
    def view(name: str) -> str:
        """Serve."""
        app.send_task(name)
        return name

    assert view("x") == "x"
    assert (view.__name__, view.__doc__) == ("view", "Serve.")
    assert kinds(sent) == ["batch"]
    app.send_task("after")
    assert kinds(sent) == ["interactive"]


def test_an_async_views_kind_holds_until_it_ends(app: Celery, fair: Fair, sent: Any) -> None:
    @kind_view("batch")
    async def view() -> None:
        await asyncio.sleep(0)
        app.send_task("x")

    async def two_requests() -> None:
        other = asyncio.create_task(asyncio.to_thread(app.send_task, "y"))
        await asyncio.gather(view(), other)

    asyncio.run(two_requests())
    assert {m.task: m.kind for m in sent()} == {"x": "batch", "y": "interactive"}


def test_a_view_that_is_only_marked_async_is_awaited_inside(
    app: Celery, fair: Fair, sent: Any
) -> None:
    """As Django's class-based views are."""

    async def serve() -> None:
        app.send_task("x")

    view = kind_view("batch")(markcoroutinefunction(lambda: serve()))
    asyncio.run(view())
    assert kinds(sent) == ["batch"]


def test_a_declared_task_keeps_its_kind_in_a_request(make_app: Any, sent: Any) -> None:
    app = make_app()
    Fair(app, kinds={"bulk": "batch"})
    kind_view("interactive")(app.send_task)("bulk")
    assert kinds(sent) == ["batch"]


def test_a_view_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(UnknownKind):
        kind_view("bacth")  # type: ignore[arg-type]


# -- Flask ----------------------------------------------------------------------------------------


def flask_kind(app: Celery, sent: Any, headers: dict[str, str], **options: Any) -> Any:
    from flask import Flask

    from celery_fair.integrations.flask import FairFlask, interactive_view

    web = Flask("web")
    fair = Fair.of(app)
    assert fair is not None
    FairFlask(fair, **options).init_app(web)

    @web.get("/")
    def plain() -> str:
        app.send_task("x")
        return ""

    @web.get("/marked")
    @interactive_view
    def marked() -> str:
        app.send_task("x")
        return ""

    @web.get("/broken")
    def broken() -> str:
        raise ZeroDivisionError

    client = web.test_client()
    found = []
    for path in ("/", "/marked"):
        client.get(path, headers=headers)
        found += kinds(sent)
    client.get("/broken", headers=headers)
    app.send_task("after the requests")
    assert kinds(sent) == ["interactive"]
    return found


def test_flask_believes_no_header_unless_told_to(app: Celery, fair: Fair, sent: Any) -> None:
    headers = {"X-Fair-Kind": "batch"}
    assert flask_kind(app, sent, headers) == ["interactive", "interactive"]


def test_in_flask_a_trusted_header_beats_the_views_mark(app: Celery, fair: Fair, sent: Any) -> None:
    headers = {"X-Fair-Kind": " Batch"}
    assert flask_kind(app, sent, headers, trust_header=True) == ["batch", "batch"]


def test_the_header_can_have_another_name(app: Celery, fair: Fair, sent: Any) -> None:
    headers = {"X-Lane": "batch", "X-Fair-Kind": "interactive"}
    assert flask_kind(app, sent, headers, trust_header=True, header="X-Lane") == ["batch"] * 2


@pytest.mark.parametrize("told", ["", "bulk", "batch" * 1000])
def test_a_header_that_is_no_kind_says_nothing(
    app: Celery, fair: Fair, sent: Any, told: str
) -> None:
    headers = {"X-Fair-Kind": told}
    assert flask_kind(app, sent, headers, trust_header=True) == ["interactive"] * 2


# -- Django ---------------------------------------------------------------------------------------


@pytest.fixture
def django() -> Any:
    return configured()


def request_with(header: str | None) -> Any:
    from django.test import RequestFactory

    return RequestFactory().get("/", headers={"X-Fair-Kind": header} if header else {})


def test_in_django_a_trusted_header_beats_the_views_mark_for_one_request(
    app: Celery, fair: Fair, sent: Any, django: Any
) -> None:
    from celery_fair.integrations.django import batch_view, fair_middleware

    @batch_view
    def view(request: Any) -> str:
        app.send_task("x")
        return "served"

    with django(FAIR_TRUST_HEADER=True):
        serve = fair_middleware(view)
    assert serve(request_with("interactive")) == "served"
    assert kinds(sent) == ["interactive"]
    assert serve(request_with(None)) == "served"
    assert kinds(sent) == ["batch"]


def test_django_serves_async_views_too(app: Celery, fair: Fair, sent: Any, django: Any) -> None:
    from asgiref.sync import sync_to_async

    from celery_fair.integrations.django import fair_middleware

    async def view(request: Any) -> str:
        await sync_to_async(app.send_task)("x")
        return "served"

    with django(FAIR_TRUST_HEADER=True):
        serve = fair_middleware(view)
    assert asyncio.run(serve(request_with("batch"))) == "served"
    assert kinds(sent) == ["batch"]


def test_djangos_checks_name_each_bad_setting(django: Any) -> None:
    from celery_fair.integrations.django import check_settings

    assert check_settings() == []
    with django(CELERY_FAIR={"batch_shre": 1, "mode": "x"}):
        errors = check_settings()
    assert sorted(error.id for error in errors) == ["celery_fair.E001"] * 2
    assert any("did you mean 'batch_share'" in error.msg for error in errors)


# -- the examples ---------------------------------------------------------------------------------

PUBLISHED = """
import json
from concurrent.futures import ThreadPoolExecutor

def in_a_thread(request):
    '''As web servers do: a new thread doesn't know the app that the main one made last.'''
    with ThreadPoolExecutor() as pool:
        assert pool.submit(request).result() == 202

def published(celery_app):
    found = []
    with celery_app.connection_for_write() as connection:
        channel = connection.default_channel
        for queue in sorted(channel.queues):
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                found.append(message.headers["task"].rpartition(".")[2] + " " + queue)
    return sorted(found)
"""

SERVED = """
import fakeredis
from example_project import streams
streams.store = fakeredis.FakeRedis(decode_responses=True)

from celery_fair import Fair
from celery_fair.jobs.memory_store import MemoryStore
Fair.of(celery_app).jobs._store = MemoryStore()
SUMMARIZE = "example_project.tasks.summarize_document"

def post(path, asked):
    return client.post(path, data=json.dumps(asked), content_type="application/json").status_code

in_a_thread(lambda: post("/ask", {"question": "why"}))
print(*published(celery_app), sep="\\n")
assert post("/jobs", {"task": SUMMARIZE, "items": [0, 1]}) == 202
print(*published(celery_app), sep="\\n")
for nothing in ({}, [], {"question": ""}, {"question": "y" * 501}, {"task": "answer"}):
    assert post("/ask", nothing) == post("/jobs", nothing) == 400, nothing
assert client.post("/ask", data="question=why", content_type="text/plain").status_code == 400
assert client.post("/ask", data="{", content_type="application/json").status_code == 400
(job,) = json.loads(read("/jobs"))["jobs"]
assert (job["task"], job["total"], job["done"]) == (SUMMARIZE, 2, 0), job

import time
import httpx
from example_project import service, tasks

def model_answers(status):
    transport = httpx.MockTransport(lambda _: httpx.Response(status))
    made = httpx.Client(base_url="http://m", transport=transport)
    tasks.model = lambda: made

model_answers(429)
pauses = []
tasks.time.sleep = pauses.append
assert tasks.summarize_document.apply((7,)).failed()
assert len(pauses) == 5, pauses
asked = tasks.answer.apply(("why",)).id
told = [said for _, said in streams.store.xrange("stream:" + asked)]
assert [said["event"] for said in told].count("retrying") == 6, told
assert (told[-1]["event"], json.loads(told[-1]["data"])) == ("failed", {"source": "model"})

blind = {"ready": None, "running": 1, "held": 2, "tenants": None}
blind["wait_seconds"] = {"count": 0, "p95": None}
seeing = {**blind, "ready": {"celery": 5, "celery.front": 1}}
assert service.of_kind([blind])["waiting"] is None
assert service.of_kind([blind, seeing])["waiting"] == 10
assert client.get("/ask/x").status_code == 404
print("page", client.get("/").status_code)
"""

FLASK = """
from example_project.flask_app import app, celery_app
client = app.test_client()
read = lambda path: client.get(path).data
"""

DJANGO = """
from example_project.django_app import celery_app
from django.core.management import call_command
from django.test import Client
call_command("check")
client = Client()
read = lambda path: client.get(path).content
"""


@pytest.mark.parametrize("program", [FLASK, DJANGO], ids=["flask", "django"])
def test_the_example_publishes_each_kind_to_its_queue_and_refuses_what_it_cant_read(
    program: str,
) -> None:
    environment = {"BROKER_URL": "memory://", "RESULT_BACKEND": "cache+memory://"}
    done = subprocess.run(
        [sys.executable, "-c", PUBLISHED + program + SERVED],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-4:] == [
        "answer celery",
        "summarize_document celery.batch",
        "summarize_document celery.batch",
        "page 200",
    ]
