"""Jobs over HTTP: the same answers in each framework, and nothing that was not asked for."""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import pytest
from celery import Celery
from flask import Flask
from kombu.exceptions import OperationalError

from celery_fair import Fair, QueueFull, SettingsError, StateAway, job_task
from celery_fair.integrations.asgi import JobsApp
from celery_fair.integrations.flask import jobs_blueprint
from celery_fair.integrations.jobs import JobsApi
from tests.unit.client.djangos import configured
from tests.unit.jobs.kept import keep, work

override_settings = configured()

from celery_fair.integrations.django import jobs_urls  # noqa: E402 - it needs the settings

DOUBLE = "shop.double"
#: Of no task here: nothing of it runs.
ELSEWHERE = "shop.elsewhere"
HOSTILE = "<script>alert(1)</script>\r\nX-Evil: 1"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        return json.loads(self.body)


def by_flask(fair: Fair, options: dict[str, Any], method: str, path: str, **sent: Any) -> Answer:
    web = Flask("web")
    web.register_blueprint(jobs_blueprint(fair, **options), url_prefix="/jobs")
    answer = web.test_client().open(path, method=method, data=sent["body"], headers=sent["headers"])
    return Answer(answer.status_code, dict(answer.headers), answer.data)


def by_django(fair: Fair, options: dict[str, Any], method: str, path: str, **sent: Any) -> Answer:
    from django.test import Client

    urls: Any = types.ModuleType("urls")
    urls.urlpatterns = jobs_urls(fair, "jobs", **options)
    type = sent["headers"].pop("Content-Type", "")
    with override_settings(ROOT_URLCONF=urls, MIDDLEWARE=[]):
        answer = Client().generic(
            method, path, sent["body"], content_type=type, headers=sent["headers"]
        )
    return Answer(answer.status_code, dict(answer.headers), answer.content)


def by_asgi(fair: Fair, options: dict[str, Any], method: str, path: str, **sent: Any) -> Answer:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(JobsApp(fair, **options), root_path="/jobs")
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            return await client.request(method, path, content=sent["body"], headers=sent["headers"])

    answer = asyncio.run(ask())
    headers = {name.title(): value for name, value in answer.headers.items()}
    return Answer(answer.status_code, headers, answer.content)


@pytest.fixture
def app() -> Celery:
    """Its jobs run at once, and are kept in memory."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    Fair(app)

    @job_task(name=DOUBLE)
    def double(item: int) -> int:
        return 2 * item

    @job_task(name="shop.secret")
    def secret(item: int) -> int:
        return item

    return app


@pytest.fixture
def fair(app: Celery) -> Fair:
    found = Fair.of(app)
    assert found is not None
    return found


@pytest.fixture
def store(fair: Fair) -> Any:
    return fair.jobs.store


@pytest.fixture(params=[by_flask, by_django, by_asgi])
def ask(request: Any, fair: Fair) -> Callable[..., Answer]:
    """``ask("POST", "/jobs", {…}, header="…", options={…})``, in each framework in turn."""

    def ask(
        method: str, path: str, said: Any = None, *, body: bytes | None = None,
        options: dict[str, Any] | None = None, **headers: str,
    ) -> Answer:  # fmt: skip
        if body is None:
            body = b"" if said is None else json.dumps(said).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            headers.setdefault("Content-Type", "application/json")
        given = {"tasks": [DOUBLE], **(options or {})}
        return request.param(fair, given, method, path, body=body, headers=headers)

    return ask


@pytest.fixture
def api(fair: Fair) -> Callable[..., Any]:
    """For what no framework has a part in: `ask` in one of them alone."""

    def ask(method: str, path: str, said: Any = None, **options: Any) -> Answer:
        body = b"" if said is None else json.dumps(said).encode()
        headers = {"Content-Type": "application/json"}
        given = {"tasks": [DOUBLE], **options}
        return by_flask(fair, given, method, path, body=body, headers=headers)

    return ask


# To submit and to see


def test_a_job_is_submitted_and_seen_at_the_address_that_the_answer_names(ask: Any) -> None:
    submitted = ask("POST", "/jobs", {"task": DOUBLE, "items": [1, 2, 3]})
    assert submitted.status == 202, submitted.body
    where = submitted.headers["Location"]
    assert where == f"/jobs/{submitted.said['id']}"
    shown = ask("GET", where)
    assert shown.status == 200
    assert (shown.said["state"], shown.said["done"], shown.said["total"]) == ("finished", 3, 3)
    assert shown.headers["Content-Type"] == "application/json"
    assert shown.headers["Cache-Control"] == "no-store"


def test_the_same_request_again_is_the_same_job(ask: Any, fair: Fair) -> None:
    asked = {"task": DOUBLE, "items": [1, 2]}
    by_header = [ask("POST", "/jobs", asked, Idempotency_Key='"r-17"') for _ in range(2)]
    by_body = ask("POST", "/jobs", {**asked, "id": "r-17"})
    assert [one.status for one in (*by_header, by_body)] == [202] * 3
    assert {one.said["id"] for one in (*by_header, by_body)} == {"r-17"}
    assert len(fair.list_jobs(0, 10)) == 1


def test_jobs_are_listed_page_by_page(ask: Any, store: Any) -> None:
    for number in range(3):
        keep(store, f"job-{number}", 1, task=DOUBLE)
    first = ask("GET", "/jobs?count=2")
    assert [job["id"] for job in first.said["jobs"]] == ["job-2", "job-1"]
    last = ask("GET", f"/jobs?count=2&start={first.said['next_start']}")
    assert [job["id"] for job in last.said["jobs"]] == ["job-0"]
    assert last.said["next_start"] is None


def test_head_is_get_without_a_body(ask: Any) -> None:
    answer = ask("HEAD", "/jobs")
    assert (answer.status, answer.body) == (200, b"")


# What isn't on the list isn't there


def test_a_task_that_is_not_listed_can_neither_be_submitted_nor_seen(ask: Any, store: Any) -> None:
    keep(store, "hidden", 1, task="shop.secret")
    assert ask("POST", "/jobs", {"task": "shop.secret", "items": [1]}).status == 400
    assert ask("GET", "/jobs/hidden").status == 404
    assert ask("GET", "/jobs").said["jobs"] == []
    options = {"actions": ["cancel"]}
    assert ask("POST", "/jobs/hidden/cancel", {}, options=options).status == 404
    assert store.progress("hidden").state == "running"


def test_actions_are_there_only_if_they_were_asked_for(ask: Any, store: Any) -> None:
    keep(store, "mine", 2, task=ELSEWHERE)
    tasks = {"tasks": [ELSEWHERE]}
    assert ask("POST", "/jobs/mine/pause", {}, options=tasks).status == 404
    options = {**tasks, "actions": ["pause", "resume", "cancel", "retry"]}
    states = []
    for action in ("pause", "resume", "cancel"):
        answer = ask("POST", f"/jobs/mine/{action}", {}, options=options)
        assert answer.status == 200, answer.body
        states.append(answer.said["state"])
    assert states[0] == "paused"
    assert states[2] == "cancelled"
    ended = ask("POST", "/jobs/mine/pause", {}, options=options)
    assert (ended.status, ended.said["error"]) == (409, "conflict")


def test_why_a_job_stands_is_not_told(ask: Any, store: Any) -> None:
    keep(store, "mine", 2, task=DOUBLE)
    store.pause("mine", "ValueError: secret, by ann@ops")
    assert b"secret" not in ask("GET", "/jobs/mine").body
    assert b"ann" not in ask("GET", "/jobs").body


# What can't be used


@pytest.mark.parametrize(
    ("said", "status", "detail"),
    [
        ([], 400, "expected a JSON object"),
        ({"task": DOUBLE}, 400, "items: expected a list"),
        ({"task": "other", "items": []}, 400, "task: expected 'shop.double'"),
        ({"task": [DOUBLE], "items": []}, 400, "task: expected"),
        ({"task": DOUBLE, "items": {}}, 400, "items: expected a list"),
        ({"task": DOUBLE, "items": [1], "queue": "x"}, 400, "got 'queue'"),
        ({"task": DOUBLE, "items": [1], "id": "a/b"}, 400, "id=…): expected"),
        ({"task": DOUBLE, "items": [1], "id": 7}, 400, "id: expected a string"),
        ({"task": DOUBLE, "items": [1], "id": HOSTILE}, 400, "id=…): expected"),
        ({"task": DOUBLE, "items": [1], "chunk_items": -1}, 400, "chunk_items"),
        ({"task": DOUBLE, "items": [1], "chunk_seconds": "soon"}, 400, "chunk_seconds"),
        ({"task": DOUBLE, "items": [1] * 6}, 413, "items: expected 5 at most"),
    ],
)
def test_what_cannot_be_used_is_a_sentence(
    said: Any, status: int, detail: str, api: Any, fair: Fair
) -> None:
    answer = api("POST", "/jobs", said, max_items=5)
    assert answer.status == status, answer.body
    assert detail in answer.said["detail"]
    assert answer.said["source"] == "jobs"
    assert fair.list_jobs(0, 1) == []


@pytest.mark.parametrize(
    "body",
    [
        b" ",
        b"{",
        b'{"task": "shop.double", "items": [NaN]}',
        b"[" * 50_000,
        b"1" * 5000,
        b"\xff\xfe\x00",
        b'{"items": [1e999}',
    ],
)
def test_a_body_that_is_no_json_is_refused(body: bytes, ask: Any) -> None:
    assert ask("POST", "/jobs", body=body).status == 400


def test_a_body_that_is_too_long_is_refused_unread(ask: Any) -> None:
    long = json.dumps({"task": DOUBLE, "items": [1] * 100}).encode()
    answer = ask("POST", "/jobs", body=long, options={"max_bytes": 99})
    assert (answer.status, answer.said["error"]) == (413, "too_large")


@pytest.mark.parametrize("path", ["/jobs", "/jobs/mine/cancel"])
def test_a_form_of_another_site_submits_nothing(path: str, ask: Any, store: Any) -> None:
    keep(store, "mine", 2, task=DOUBLE)
    for type in ("text/plain", "application/x-www-form-urlencoded"):
        answer = ask(
            "POST", path, {"task": DOUBLE, "items": [1]}, Content_Type=type,
            options={"actions": ["cancel"]},
        )  # fmt: skip
        assert answer.status == 415
    assert store.progress("mine").state == "running"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/jobs/mine", 405), ("GET", "/jobs/other", 404), ("GET", "/jobs/mine/x", 404),
     ("GET", "/jobs/mine/x/y", 404), ("GET", "/jobs?start=-1", 400), ("GET", "/jobs?count=x", 400),
     ("GET", "/jobs?count=99999999999999999999", 400), ("PUT", "/jobs", 405),
     ("DELETE", "/jobs/mine", 405)],
)  # fmt: skip
def test_an_address_that_is_none_is_told(
    method: str, path: str, status: int, ask: Any, store: Any
) -> None:
    keep(store, "mine", 2, task=DOUBLE)
    answer = ask(method, path, {} if method == "POST" else None)
    assert answer.status == status
    assert answer.said["source"] == "jobs"


def test_an_id_of_another_job_is_a_conflict(ask: Any, store: Any) -> None:
    keep(store, "taken", 3, task="shop.secret")
    answer = ask("POST", "/jobs", {"task": DOUBLE, "items": [1], "id": "taken"})
    assert (answer.status, answer.said["error"]) == (409, "conflict")
    assert b"secret" not in answer.body


def test_a_client_adds_no_items_to_a_job_that_something_else_submits_still(
    ask: Any, store: Any
) -> None:
    keep(store, "nightly", 2, task=DOUBLE, close=False, ahead=2)
    asked = {"task": DOUBLE, "items": [1, 2, 3, 4], "id": "nightly"}
    assert ask("POST", "/jobs", asked).status == 409
    assert store.progress("nightly").submitted == 2


def test_a_page_of_no_jobs_is_no_page_that_leads_to_itself(ask: Any, store: Any) -> None:
    keep(store, "mine", 2, task=DOUBLE)
    keep(store, "more", 2, task=DOUBLE)
    assert ask("GET", "/jobs?count=0").said["next_start"] == 1


# When it can't be done now


@pytest.mark.parametrize("error", [StateAway(), OperationalError("amqp://user:secret@host")])
def test_what_cannot_be_reached_now_is_to_be_tried_again(
    error: Exception, ask: Any, fair: Fair, monkeypatch: Any
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise error

    for name in ("submit_job", "list_jobs"):
        monkeypatch.setattr(fair, name, away)
    for answer in (ask("POST", "/jobs", {"task": DOUBLE, "items": [1]}), ask("GET", "/jobs")):
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "5"
        assert b"secret" not in answer.body


def test_a_request_that_got_half_through_is_repeated_with_the_id_of_its_answer(
    api: Any, fair: Fair, store: Any, monkeypatch: Any
) -> None:
    def away(*_: Any) -> None:
        raise StateAway

    asked = {"task": DOUBLE, "items": [1, 2]}
    monkeypatch.setattr(store, "close", away)
    lost = api("POST", "/jobs", asked)
    assert lost.status == 503
    monkeypatch.undo()
    again = api("POST", "/jobs", {**asked, "id": lost.said["id"]})
    assert again.status == 202
    assert (again.said["submitted"], again.said["state"]) == (2, "finished")
    assert len(fair.list_jobs(0, 10)) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_too_much_that_waits_is_answered_as_everywhere(
    status: int, ask: Any, fair: Fair, monkeypatch: Any
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise QueueFull("batch", 4711, 815, 6.2)

    monkeypatch.setattr(fair, "submit_job", full)
    asked = {"task": DOUBLE, "items": [1]}
    answer = ask("POST", "/jobs", asked, options={"full_status": status})
    assert (answer.status, answer.said["error"]) == (status, "queue_full")
    assert answer.headers["Retry-After"] == "7"
    assert b"4711" not in answer.body


# What the application says


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tasks": []}, "tasks: expected a list"),
        ({"tasks": "shop.double"}, "tasks: expected a list"),
        ({"tasks": [7]}, "tasks: expected a list"),
        ({"actions": ["delete"]}, "actions: expected"),
        ({"max_items": 0}, "max_items: expected"),
        ({"max_bytes": True}, "max_bytes: expected"),
        ({"full_status": 500}, "full_status: expected"),
        ({"options": {"ahead": 5}}, "options: expected none of task, .*, ahead, got 'ahead'"),
        ({"options": ["queue"]}, "options: expected a dict"),
    ],
)
def test_options_that_cannot_be_used_are_refused_at_the_start(
    options: Any, problem: str, fair: Fair
) -> None:
    with pytest.raises(SettingsError, match=problem):
        JobsApi(fair, **{"tasks": [DOUBLE], **options})


def test_tasks_may_be_named_by_themselves(app: Celery, fair: Fair, api: Any) -> None:
    asked = {"task": DOUBLE, "items": [1]}
    assert api("POST", "/jobs", asked, tasks=[app.tasks[DOUBLE]]).status == 202


def test_what_the_application_says_of_each_job_holds_unless_a_client_may_say_it(
    api: Any, fair: Fair
) -> None:
    options = {"results": True, "max_failures": 7}
    asked = {"task": DOUBLE, "items": [1, 2], "id": "mine", "max_failures": 1}
    assert api("POST", "/jobs", asked, options=options).status == 202
    assert fair.job("mine").results() == {0: 2, 1: 4}
    assert fair.jobs.store.plan("mine").max_failures == 1


def test_django_decorates_each_address_as_it_is_told(fair: Fair) -> None:
    seen: list[Any] = []

    def decorate(view: Any) -> Any:
        seen.append(view)
        return lambda *_, **__: "decorated"

    urls = jobs_urls(fair, "jobs", decorate=decorate, tasks=[DOUBLE])
    assert [url.callback() for url in urls] == ["decorated"] * len(urls)
    assert len(seen) == 1


def test_a_retry_runs_what_has_failed_again(api: Any, store: Any, fair: Fair) -> None:
    keep(store, "mine", 1, task=DOUBLE)
    work(store, "mine", 1, failing=1)
    answer = api("POST", "/jobs/mine/retry", {}, actions=["retry"])
    assert answer.status == 200
    assert answer.said["failed"] == 0
