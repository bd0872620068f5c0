"""Celery's own ``task-received`` event names kind and queue, at no cost where nobody asks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from celery.app.amqp import Queues

from celery_fair.worker import hooks
from celery_fair.worker.hooks import Hooks


class Events:
    """As Celery's dispatcher of events: a strategy binds ``send`` when it is made."""

    def __init__(self, *groups: str) -> None:
        self.groups = set(groups)
        self.sent: list[tuple[str, dict]] = []

    def send(self, type: str, **fields: object) -> None:
        self.sent.append((type, fields))


@pytest.fixture
def strategy_with(monkeypatch):
    """``strategy_with(events, receiving=…)``: the ``send`` of a strategy made meanwhile."""
    monkeypatch.setattr(hooks, "adopt", lambda connection, queues: None)

    def make(events, **consumer):
        c = SimpleNamespace(
            connection=None,
            app=SimpleNamespace(amqp=SimpleNamespace(queues=Queues())),
            event_dispatcher=events,
            task_consumer=SimpleNamespace(**consumer),
        )
        made = []
        Hooks(c, None)._update_strategies(lambda: made.append(events and events.send))
        return made[0]

    return make


def message(kind, queue):
    return SimpleNamespace(
        fair_lane=SimpleNamespace(kind=kind), delivery_info={"routing_key": queue}
    )


def test_the_event_names_kind_and_queue_of_the_message_being_received(strategy_with):
    events = Events("worker", "task")
    send = strategy_with(events, receiving=message("batch", "reports"))
    send("task-received", uuid="1")
    assert events.sent == [
        ("task-received", {"uuid": "1", "fair_kind": "batch", "fair_queue": "reports"})
    ]


def test_no_group_at_all_means_every_group(strategy_with):
    events = Events()
    strategy_with(events, receiving=message("batch", "reports"))("task-received", uuid="1")
    assert len(events.sent) == 1


def test_nothing_is_made_up_while_nobody_asks_for_events_of_tasks(strategy_with):
    events = Events("worker")
    strategy_with(events, receiving=None)("task-received", uuid="1")
    assert events.sent == []


def test_who_asks_later_is_told(strategy_with):
    events = Events("worker")
    send = strategy_with(events, receiving=message("interactive", "celery"))
    events.groups.add("task")  # as `celery control enable_events` does
    send("task-received", uuid="1")
    assert events.sent[0][1]["fair_kind"] == "interactive"


def test_all_other_events_go_celerys_own_way(strategy_with):
    events = Events("task")
    strategy_with(events, receiving=message("batch", "reports"))
    assert "send" not in vars(events)
    events.send("task-started", uuid="1")
    assert events.sent == [("task-started", {"uuid": "1"})]


def test_a_worker_that_only_observes_adds_nothing(strategy_with):
    events = Events("task")
    strategy_with(events)("task-received", uuid="1")
    assert events.sent == [("task-received", {"uuid": "1"})]


def test_a_worker_without_events_makes_its_strategies_all_the_same(strategy_with):
    assert strategy_with(None) is None
