"""The messages of the bench, as they lie in a queue."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from celery import Celery
from kombu.transport import memory

from celery_fair import Fair, QueueFull
from celery_fair.bench.probing import HEADER, Plan, Publisher
from celery_fair.bench.replies import EXCHANGE, Replies

PLAN = Plan(seconds=10, patience_seconds=5, flood=3)


@pytest.fixture
def make():
    """``make(fair=True)``: an app, and a publisher of its probes; what it sends stays here."""
    memory.Transport.global_state.clear()
    memory.Channel.queues.clear()
    apps = []

    def make(plan=PLAN, *, with_fair=False):
        app = Celery("bench", broker="memory://", set_as_current=False)
        apps.append(app)
        if with_fair:
            Fair(app)
        connection = app.connection_for_write()
        return connection, Publisher(app, connection, Replies(app), plan, "mark")

    yield make
    for app in apps:
        app.close()


def messages(connection, queue):
    with connection.SimpleQueue(queue) as waiting:
        return [waiting.get(block=False) for _ in range(waiting.qsize())]


def test_a_probe_is_marked_expires_with_the_bench_and_leaves_no_result(make):
    connection, publisher = make()
    publisher.probe("interactive")
    (message,) = messages(connection, "celery")
    headers = message.headers
    assert headers["task"] == "celery.accumulate"
    assert headers["shadow"] == "celery_fair.probe"
    assert headers[HEADER] == "mark"
    assert headers["ignore_result"] is True
    left = datetime.fromisoformat(headers["expires"]) - datetime.now(timezone.utc)
    assert timedelta(seconds=10) < left <= timedelta(seconds=15)
    assert 10_000 < int(message.properties["expiration"]) <= 15_000, "and RabbitMQ drops it then"
    (callback,) = message.payload[2]["callbacks"]
    assert callback["options"]["exchange"] == EXCHANGE
    assert callback["options"]["routing_key"] == publisher._replies.name_of_queue


def test_a_probe_that_holds_its_slot_is_the_packages_own_task(make):
    connection, publisher = make(Plan(run_seconds=0.2))
    publisher.probe("batch")
    (message,) = messages(connection, "celery")
    assert message.headers["task"] == "celery_fair.probe"
    assert message.payload[0] == [0.2]


def test_a_flood_expires_too_and_tells_nothing(make):
    connection, publisher = make()
    publisher.send_flood()
    found = messages(connection, "celery")
    assert len(found) == 3
    assert all(each.headers["expires"] for each in found)
    assert all(each.payload[2]["callbacks"] is None for each in found)
    assert publisher.unfinished() == [each.headers["id"] for each in found]


def test_a_fair_app_sends_each_kind_where_its_tasks_go(make):
    connection, publisher = make(with_fair=True)
    publisher.probe("interactive")
    publisher.probe("batch")
    assert [m.headers["fair"].split()[0] for m in messages(connection, "celery")] == ["interactive"]
    assert [m.headers["fair"].split()[0] for m in messages(connection, "celery.batch")] == ["batch"]


def test_a_queue_that_is_named_is_where_a_kind_goes(make):
    connection, publisher = make(Plan(queues={"batch": "reports"}))
    publisher.probe("batch")
    assert len(messages(connection, "reports")) == 1


def test_what_admission_refuses_is_counted_and_not_sent(make, monkeypatch):
    _, publisher = make(with_fair=True)

    def refuse(*_, **__):
        raise QueueFull("interactive", 50, 50, 5.0)

    monkeypatch.setattr(publisher._app, "send_task", refuse)
    publisher.probe("interactive")
    publisher.send_flood()
    assert (publisher.sent["interactive"].refused, publisher.sent["interactive"].at) == (1, {})
    assert publisher.flood == []
