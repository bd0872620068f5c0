"""A continuation is the task's own message again, whatever was in that; and the end of its run."""

from __future__ import annotations

import asyncio
import logging
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.app.trace import build_tracer
from celery.local import Proxy

from celery_fair import Fair, FairHeader
from celery_fair.observe.endings import YIELDED
from celery_fair.worker.outcomes import outcome_of
from celery_fair.yielding.board import ALL, Board
from celery_fair.yielding.runs import BOARD
from celery_fair.yielding.words import HEADER, GaveWay, decode

KEPT = (
    "id", "task", "group", "group_index", "retries", "timelimit", "root_id", "parent_id", "shadow",
    "argsrepr", "kwargsrepr", "origin", "ignore_result", "replaced_task_nesting", "stamps",
    "stamped_headers", "eta",
)  # fmt: skip
MESSAGE = {
    "chord": {"task": "body", "args": [], "kwargs": {}, "options": {"task_id": "body-id"}},
    "chain": [{"task": "next", "args": [], "kwargs": {}, "options": {}}],
    "callbacks": [{"task": "link", "args": [], "kwargs": {}, "options": {}}],
    "errbacks": [{"task": "errback", "args": [], "kwargs": {}, "options": {}}],
}

ALONE = dict.fromkeys(MESSAGE)


class Worker:
    """One app's tasks as a worker traces them, over a broker in memory."""

    def __init__(self, **conf: Any) -> None:
        self.app = Celery("t", broker="memory://", backend="cache+memory://", set_as_current=False)
        self.app.conf.update(conf)
        self.fair = Fair(self.app, kinds={"b.*": "batch"})
        self.events: list[str] = []
        self.board = Board(1)
        self.fails = 0
        worker = self

        @self.app.task(name="b.task", bind=True, shared=False)
        def task(self: Any, *args: Any) -> object:
            done = worker.fair.saved(default=0)
            try:
                for number in worker.fair.yielding(range(10), state=lambda: number):  # noqa: B023
                    worker.events.append(f"item {number}")
                    if number in worker.asks:
                        [cell] = worker.board.in_use(1)
                        worker.board.ask(cell)
            finally:
                worker.events.append("finally")
            return done

        self.asks: set[int] = {3}
        self.app.finalize()
        self.task = task
        self.fair.runs.open(self.board)

    def run(self, request: dict[str, Any]) -> Any:
        tracer = build_tracer(self.task.name, self.task, app=self.app)
        return tracer(request["id"], request.get("args", ()), {}, request)

    def close(self) -> None:
        self.fair.runs.close()
        self.fair.uninstall()


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


@pytest.fixture
def sent(worker, monkeypatch):
    """What is published, in place of a broker."""
    found: list[Any] = []

    def send(producer, name, message, **options):
        worker.events.append("published")
        if worker.fails:
            worker.fails -= 1
            raise ConnectionError("no broker")
        found.append((message, options))

    monkeypatch.setattr(worker.app.amqp, "__dict__", {**vars(worker.app.amqp)})
    worker.app.amqp.__dict__["send_task_message"] = send
    worker.app.amqp.__dict__["create_task_message"] = worker.app.amqp.as_task_v2
    return found


def request(**more: Any) -> dict[str, Any]:
    line = FairHeader("batch", 1000.0, 1000.0, request_id="r", tenant="t", once="copy").as_line()
    return {
        "id": "an-id", "task": "b.task", "args": [1], "group": "g", "group_index": 2, "retries": 3,
        "timelimit": [60, 50], "root_id": "root", "parent_id": None, "shadow": "shade",
        "argsrepr": "(…)", "kwargsrepr": "{}", "origin": "web", "ignore_result": False,
        "replaced_task_nesting": 1, "reply_to": "who", "correlation_id": "an-id",
        "stamps": {"team": ["a"]}, "stamped_headers": ["team"], "fair": line, "eta": None,
        "expires": "2999-01-01T00:00:00+00:00",
        "delivery_info": {"exchange": "", "routing_key": "celery.batch", "priority": 4},
        **MESSAGE, **more,
    }  # fmt: skip


def test_all_of_the_message_is_kept_but_for_how_far_it_is(worker, sent):
    first = request()
    worker.run(first)
    [(message, options)] = sent
    assert {name: message.headers[name] for name in KEPT} == {name: first[name] for name in KEPT}
    args, kwargs, embed = message.body
    assert (list(args), kwargs) == ([1], {})
    assert embed == MESSAGE
    assert message.properties == {"correlation_id": "an-id", "reply_to": "who"}
    assert message.sent_event is None
    assert (message.headers["expires"], options.get("expiration")) == (None, None)
    assert options["priority"] == 4
    assert options["queue"].name in ("celery.batch", "celery.batch.front")
    header = FairHeader.read(options["headers"])
    assert header._replace(ready_at=0.0) == FairHeader(
        "batch", 1000.0, 0.0, request_id="r", tenant="t", once="copy", yields=1
    )
    assert header.ready_at > 1000.0
    assert decode(options["headers"]) == {"state": 3, "loops": [0, 4, None]}


def test_it_is_published_when_the_task_has_been_left(worker, sent):
    worker.run(request())
    assert worker.events == ["item 0", "item 1", "item 2", "item 3", "finally", "published"]


def test_the_next_run_goes_on_and_counts_on(worker, sent):
    worker.asks = {3, 7}
    worker.run(request())
    headers = sent[0][1]["headers"]
    worker.events.clear()
    worker.run(request(**headers))
    assert worker.events[0] == "item 4"
    assert FairHeader.read(sent[1][1]["headers"]).yields == 2
    worker.events.clear()
    answer = worker.run(request(**sent[1][1]["headers"], **ALONE))
    assert worker.events == ["item 8", "item 9", "finally"]
    assert (answer.info, answer.retval) == (None, 7)


def test_celery_stores_and_says_nothing_and_the_outcome_is_yielded(worker, sent, caplog):
    with caplog.at_level(logging.DEBUG):
        answer = worker.run(request(id="another-id"))
    assert outcome_of((True, answer.retval, 1.0), SimpleNamespace(
        _already_revoked=False, _already_cancelled=False
    )) == YIELDED  # fmt: skip
    assert worker.app.AsyncResult("another-id").state == "PENDING"
    assert [
        record.levelname for record in caplog.records if "another-id" in record.getMessage()
    ] == ["DEBUG"]


def test_a_broker_that_is_away_lets_the_task_go_on_in_its_slot(worker, sent, monkeypatch, caplog):
    worker.fails = 1
    monkeypatch.setattr("celery_fair.yielding.run.AGAIN_SECONDS", 0.0)
    worker.run(request())
    assert [event for event in worker.events if event.startswith("item")] == [
        f"item {number}" for number in range(5)
    ]
    assert worker.events.count("published") == 2
    assert len(sent) == 1
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "could not yield, and goes on in its slot: ConnectionError" in warning.getMessage()


def test_just_after_a_failure_nothing_is_tried(worker, sent):
    worker.fails = 1
    worker.asks = {3, 4, 5}
    answer = worker.run(request(**ALONE))
    assert (answer.info, sent, worker.events.count("published")) == (None, [], 1)


def test_eager_and_direct_calls_never_yield(worker, sent):
    worker.asks = set()
    assert worker.task.apply().get() == 0
    assert worker.task() == 0
    worker.fair.runs.close()
    assert worker.task() == 0
    assert sent == []


def test_tasks_are_as_they_were_when_the_worker_has_ended(worker):
    assert hasattr(worker.task.run, "fair_run")
    worker.fair.runs.close()
    assert not hasattr(worker.task.run, "fair_run")


def test_a_task_called_by_another_does_not_take_its_state(worker, sent):
    inner = []

    @worker.app.task(name="b.outer", bind=True, shared=False)
    def outer(self):
        inner.append(worker.task())
        inner.append(worker.fair.saved())

    worker.asks = set()
    worker.fair.runs.open(worker.board)
    tracer = build_tracer(outer.name, outer, app=worker.app)
    tracer("o", (), {}, request(id="o", **{HEADER: '{"state": 99}'}))
    assert inner == [0, 99]


def test_a_run_called_as_a_function_is_a_part_of_the_task_that_calls_it(worker, sent):
    @worker.app.task(name="b.inner", shared=False)
    def inner(numbers):
        for number in worker.fair.yielding(numbers):
            worker.events.append(f"inner {number}")
            worker.board.ask_all()

    @worker.app.task(name="b.outer", bind=True, shared=False)
    def outer(self, depth=1):
        if depth:
            return self.run(depth - 1)
        return inner.run(range(3))

    worker.fair.runs.open(worker.board)
    tracer = build_tracer(outer.name, outer, app=worker.app)
    tracer("an-id", (), {}, request(args=[]))
    assert worker.events == ["inner 0", "published"]
    [(message, options)] = sent
    assert message.headers["task"] == "b.outer"
    assert decode(options["headers"]) == {"loops": [0, 1, None]}


@pytest.mark.parametrize("page", [1, 2])
def test_a_retry_with_other_arguments_begins_anew(worker, page):
    retried = []

    @worker.app.task(name="b.pages", bind=True, shared=False)
    def pages(self, at):
        raise self.retry(args=(page,), countdown=0)

    def send(name, args, kwargs, **options):
        worker.fair.prepare(name, args, kwargs, options)
        retried.append(options["headers"])

    worker.app.__dict__["send_task"] = send
    saved = request(task=pages.name, retries=0, **{HEADER: '{"state": 5}'}, **ALONE)
    build_tracer(pages.name, pages, app=worker.app)("an-id", [1], {}, saved)
    [headers] = retried
    assert (HEADER in headers) is (page == 1)


def test_a_task_that_catches_what_ends_its_loop_yields_all_the_same(worker, sent):
    @worker.app.task(name="b.catching", shared=False)
    def catching(*args):
        try:
            for number in worker.fair.yielding(range(3)):
                worker.events.append(f"item {number}")
                worker.board.ask_all()
        except BaseException:
            return "half done"

    worker.fair.runs.open(worker.board)
    tracer = build_tracer(catching.name, catching, app=worker.app)
    answer = tracer("an-id", (), {}, request())
    assert worker.events == ["item 0", "published"]
    assert answer.info.state == "IGNORED"


@pytest.mark.skipif(not hasattr(asyncio, "TaskGroup"), reason="it needs Python 3.11")
@pytest.mark.parametrize("fails", [False, True])
def test_a_task_group_in_which_one_part_yields_yields_unless_another_fails(worker, sent, fails):
    async def part(name):
        async for number in worker.fair.yielding(lambda after: _numbers(), cursor=lambda n: n):
            worker.events.append(f"{name} {number}")
            worker.board.ask_all()

    async def failing():
        raise ValueError("as asked")

    @worker.app.task(name="b.grouped", shared=False)
    def grouped(*args):
        async def parts():
            async with asyncio.TaskGroup() as group:
                group.create_task(part("a"))
                if fails:
                    group.create_task(failing())

        asyncio.run(parts())

    worker.fair.runs.open(worker.board)
    answer = build_tracer(grouped.name, grouped, app=worker.app)("an-id", (), {}, request(**ALONE))
    assert worker.events == ["a 0", *([] if fails else ["published"])]
    assert answer.info.state == ("FAILURE" if fails else "IGNORED")


async def _numbers():
    for number in range(3):
        yield number


def test_each_failure_to_publish_is_followed_by_a_longer_run(worker, sent, monkeypatch):
    now = 0.0
    monkeypatch.setattr("celery_fair.yielding.run.monotonic", lambda: now)

    @worker.app.task(name="b.late", shared=False)
    def late(*args):
        nonlocal now
        for number in worker.fair.yielding(range(20)):
            worker.events.append(str(number))
            now += 1.0
            worker.board.ask_all()

    worker.fails = 3
    worker.fair.runs.open(worker.board)
    build_tracer(late.name, late, app=worker.app)("an-id", (), {}, request(args=[]))
    found = ",".join(worker.events).replace(",published", "|")
    assert found == "0|,1|,2,3|,4,5,6,7|"


@pytest.fixture
def copy(worker, monkeypatch):
    """What Celery makes of the app in a process of the pool that is started anew."""
    made = pickle.loads(pickle.dumps(worker.app))
    made.tasks.register(worker.task)
    monkeypatch.setattr("celery_fair.app.current_app", Proxy(lambda: made))
    worker.fair.runs.close()
    yield made
    if Fair.of(made) is not None:
        Fair.of(made).runs.close()
        Fair.of(made).uninstall()


def test_a_process_of_the_pool_that_is_started_anew_has_a_fair_and_the_board(
    worker, copy, monkeypatch
):
    worker.fair._on_process_init("w@host")
    assert Fair.of(copy) is None, "no worker has said where"
    board, path = Board.named(1)
    monkeypatch.setenv(BOARD, path)
    worker.fair._on_process_init("w@host")
    fair = Fair.of(copy)
    assert fair.settings == worker.fair.settings
    assert (fair.observers, fair.fronts.served) == (worker.fair.observers, True)
    assert fair.retrying.decides
    assert hasattr(worker.task.run, "fair_run")
    worker.board, worker.asks = board, {3}
    fair.runs.board.ask_all()
    assert board.bytes[ALL] == 1


def test_of_two_apps_in_such_a_process_each_keeps_its_own_settings(worker, copy, monkeypatch):
    monkeypatch.setenv(BOARD, Board.named(1)[1])
    copy.main = "another"
    worker.fair._on_process_init("w@host")
    assert Fair.of(copy) is None


def test_a_board_that_is_gone_leaves_a_worker_that_works(worker, copy, monkeypatch, caplog):
    monkeypatch.setenv(BOARD, "/proc/1/fd/999999")
    worker.fair._on_process_init("w@host")
    assert "nothing can be asked to yield here" in caplog.text
    assert Fair.of(copy).runs.board is None


def test_the_end_of_a_run_that_yields_can_be_sent_between_processes():
    assert isinstance(pickle.loads(pickle.dumps(GaveWay())), GaveWay)
