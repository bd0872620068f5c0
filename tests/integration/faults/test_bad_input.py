"""Messages that no celery-fair has written: run as their queue's kind, counted, and never fatal."""

from __future__ import annotations

import json
import time
import uuid

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask

TASKS = ("i.sleep", "b.sleep")
YEAR = 365 * 86_400.0


def deep(levels: int) -> dict:
    nested: dict = {}
    for _ in range(levels):
        nested = {"kind": nested}
    return nested


def unreadable() -> list[object]:
    """Headers of which nothing can be used."""
    return [
        "batch",
        17,
        ["kind", "batch"],
        {},
        {"kind": "batch", "first_published": 1.0},
        {"kind": {"$ref": "os.system"}, "first_published": "now"},
        "urgent 1.0",
        "batch __import__('os') {\"ready_at\":[]}",
        "batch 1e300",
        "batch nan " + "[" * 4_000,
        deep(40),
    ]


def absurd(now: float) -> list[object]:
    """Headers that can be read, and must not be believed."""
    return [
        'batch 0 {"ready_at":0}',
        f"interactive {now + 20 * YEAR}",
        f"batch {now} " + json.dumps({"tenant": "t" * 3_000, "request_id": 3}),
        f"interactive {now} " + json.dumps({"covers_children": "yes", "more": [1]}),
        f"batch {now} " + "[" * 4_000,
    ]


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def send(app):
    """Publish as some other program would: a task message with these headers, or of protocol 1."""

    def send(task: str, label: str, **headers: object) -> None:
        identity = str(uuid.uuid4())
        body: object = ([label], {}, {"callbacks": None, "errbacks": None, "chain": None})
        with app.producer_or_acquire() as producer:
            producer.publish(
                body,
                serializer="json",
                routing_key=_queue(task),
                headers={"task": task, "id": identity, "lang": "py", **headers},
                correlation_id=identity,
            )

    return send


def send_protocol_1(app, task: str, label: str) -> None:
    with app.producer_or_acquire() as producer:
        producer.publish(
            {"task": task, "id": str(uuid.uuid4()), "args": [label], "kwargs": {}, "retries": 0},
            serializer="json",
            routing_key=_queue(task),
        )


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_hostile_headers_are_counted_and_their_tasks_run(pool, app, send, start_worker, journal):
    worker = start_worker("tests.apps.mixed", pool=pool, concurrency=2)
    labels = []
    hostile = unreadable()
    for task in TASKS:
        for number, fair in enumerate(hostile + absurd(time.time())):
            labels.append(f"{task} {number}")
            send(task, labels[-1], fair=fair)
        labels += [f"{task} none", f"{task} v1"]
        send(task, labels[-2])
        send_protocol_1(app, task, labels[-1])
        app.send_task("no.such.task", queue=_queue(task))
    with app.producer_or_acquire() as producer:
        for queue in map(_queue, TASKS):
            producer.publish("hello", serializer="json", routing_key=queue)
            producer.publish(b"\x00\xff", routing_key=queue, content_type="application/x-mine")
    journal.wait_finished(*labels, timeout=60)
    assert sorted(journal.started()) == sorted(labels)

    status = wait_until(lambda: _at_rest(app, worker), "nothing held, nothing running")
    assert status["headers"] == {"missing": 4, "unreadable": 2 * len(hostile)}
    assert status["slots"]["audited"] == 0
    assert len(json.dumps(status)) < 8_000
    for kind in status["kinds"].values():
        waited = kind["wait_seconds"]["max"]
        assert waited is None or waited < 60
    said = [line for line in worker.log_text().splitlines() if "celery-fair: " in line]
    for word in ("urgent", "__import__", "$ref", "tttt"):
        assert not [line for line in said if word in line]


@pytest.mark.brokers("redis")
def test_a_header_of_a_megabyte_is_read_over(app, send, start_worker, journal):
    start_worker("tests.apps.mixed", pool="threads", concurrency=2)
    megabyte = "x" * 1_000_000
    send("b.sleep", "text", fair=megabyte)
    send("b.sleep", "field", fair="batch 1e9 " + json.dumps({"tenant": megabyte}))
    send("b.sleep", "number", fair="batch " + "9" * 1_000_000)
    send("i.sleep", "other")
    journal.wait_finished("text", "field", "number", "other", timeout=30)


@pytest.mark.brokers("redis")
def test_the_children_of_a_task_with_a_hostile_header_have_a_kind(app, send, start_worker, journal):
    start_worker("tests.apps.mixed", pool="prefork", concurrency=2)
    for number, fair in enumerate(unreadable()):
        send("b.retrying", f"retry {number}", fair=fair)
    twice = sorted(f"retry {number}" for number in range(len(unreadable()))) * 2
    wait_until(
        lambda: sorted(journal.started()) == sorted(twice),
        lambda: f"two attempts of each: {sorted(journal.started())}",
        timeout=30,
    )


def _queue(task: str) -> str:
    return mixed.INTERACTIVE_QUEUE if task.startswith("i.") else mixed.BATCH_QUEUE


def _at_rest(app, worker):
    status = ask(app, worker.hostname)
    busy = sum(kind["running"] + kind["held"] for kind in status["kinds"].values())
    return None if busy else status
