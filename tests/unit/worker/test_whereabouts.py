"""Where in a worker a task is, with lanes as they are and nothing else behind them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from celery_fair.headers import FairHeader
from celery_fair.observe.recent import Recent
from celery_fair.observe.timeline import Timeline
from celery_fair.policy.kinds import KINDS
from celery_fair.worker import internals
from celery_fair.worker.lanes import Lane
from celery_fair.worker.pausing import Pausing
from celery_fair.worker.whereabouts import find


class Request:
    def __init__(self, id, queue):
        self.id, self.task = id, SimpleNamespace(name="summarize")
        self.delivery_info = {"routing_key": queue}
        line = FairHeader("batch", 1000.0, 1000.0, yields=3).as_line()
        self._message = SimpleNamespace(headers={"fair": line} if id == "second" else {})


@pytest.fixture
def scheduler(monkeypatch):
    """One that holds three messages of two queues."""
    lanes = {kind: Lane(kind, now=0.0, scheduled_limit=100) for kind in KINDS}
    held = [Request("first", "reports"), Request("second", "reports"), Request("third", "batch")]
    for number, request in enumerate(held):
        lanes["batch"].hold(request, number, number, 0.0)
    monkeypatch.setattr(internals, "known_request", {one.id: one for one in held}.get)
    monkeypatch.setattr(internals, "scheduled_requests", lambda timer: [])
    return SimpleNamespace(
        lanes=lanes,
        c=SimpleNamespace(task_buckets={}, timer=None),
        dispatcher=SimpleNamespace(counting=SimpleNamespace(recent=Recent()), slots=[]),
        timeline=Timeline(0.0),
        record=SimpleNamespace(changes=[]),
    )


def place(scheduler, id):
    found = find(scheduler, id, 1.0)
    return found["place"], found.get("nth"), found.get("of")


def test_a_held_message_has_its_place_in_line(scheduler):
    assert place(scheduler, "second") == ("held", 2, 3)
    assert find(scheduler, "second", 1.0)["yields"] == 3
    assert find(scheduler, "first", 1.0)["yields"] == 0


def test_one_of_a_paused_queue_is_held_too_in_a_line_of_its_own(scheduler):
    """Where it can't go back; it is in nobody's own order, and isn't being failed."""
    Pausing().change(scheduler.lanes, frozenset(), frozenset(["reports"]))
    scheduler.lanes["batch"].failing = 1
    assert place(scheduler, "second") == ("held", 2, 2)
    assert place(scheduler, "third") == ("held", 1, 1)
