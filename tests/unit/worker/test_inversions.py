"""Tasks that may be waiting for their own children: found, and said once for a name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker.inversions import LOOKED_AT, NAMED, TOLD, Inversions, parents, running
from celery_fair.worker.lanes import Lane
from celery_fair.worker.slots import Slots

NOW = 100.0


class Request(SimpleNamespace):
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def request(id, name="shop.answer", parent=None):
    message = SimpleNamespace(headers={"parent_id": parent})
    return Request(id=id, task=SimpleNamespace(name=name), _message=message)


class Worker:
    """Slots and lanes, and what is said of them."""

    def __init__(self, caplog):
        self.slots = Slots()
        self.lanes = {kind: Lane(kind, 0.0, 10) for kind in (INTERACTIVE, BATCH)}
        self._inversions = Inversions()
        self._log = caplog

    def run(self, id, kind=INTERACTIVE, seconds=10.0, name="shop.answer"):
        self.slots.take(kind, request(id, name), NOW - seconds)

    def hold(self, parent, kind=BATCH, seconds=10.0, times=1):
        for n in range(times):
            self.lanes[kind].hold(request(f"{parent}-{n}", parent=parent), 0.0, 0.0, NOW - seconds)

    def said(self, slots=8):
        self._log.clear()
        self._inversions.look(self.slots, slots, self.lanes, NOW)
        return [record.getMessage() for record in self._log.records]


@pytest.fixture
def worker(caplog):
    return Worker(caplog)


def test_an_interactive_task_whose_batch_child_waits_is_said_once(worker):
    worker.run("a")
    worker.hold("a", times=3)
    (line,) = worker.said()
    assert "shop.answer[a] is interactive, has run for 10 s, and has published batch" in line
    assert "wait here (3)" in line
    assert worker.said() == []


def test_each_name_of_a_task_is_said_by_itself_and_not_for_ever(worker):
    for n in range(TOLD + 5):
        worker.run(f"p{n}", name=f"task{n}")
        worker.hold(f"p{n}")
    assert len(worker.said(slots=1000)) == TOLD


@pytest.mark.parametrize(
    ("run", "hold"),
    [
        ({"seconds": 4.0}, {}),  # it may only be publishing
        ({}, {"seconds": 4.0}),
        ({}, {"kind": INTERACTIVE}),
        ({"kind": BATCH}, {}),
    ],
)
def test_what_is_young_or_of_a_kind_that_may_wait_is_left_alone(worker, run, hold):
    worker.run("a", **run)
    worker.hold("a", **hold)
    assert worker.said() == []


def test_children_of_others_and_messages_without_a_parent_are_no_reason(worker):
    worker.run("a")
    worker.hold("b")
    worker.hold(None)
    worker.lanes[BATCH].held[0].request._message.headers = None
    assert worker.said() == []


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_slots_that_are_all_held_by_such_parents_are_a_deadlock_of_any_kind(worker, kind):
    worker.run("a", kind)
    worker.run("b", kind, name="shop.other")
    worker.hold("a", kind)
    worker.hold("b", kind)
    (line,) = worker.said(slots=2)
    assert "every slot (2) has a task whose children wait here" in line
    assert "shop.answer, shop.other" in line
    assert worker.said(slots=2) == []


def test_one_slot_that_may_come_free_is_no_deadlock(worker):
    worker.run("a", BATCH)
    worker.run("b", BATCH)
    worker.hold("a")
    assert worker.said(slots=2) == []


def test_only_so_many_held_messages_are_looked_at(worker):
    worker.run("a")
    worker.hold("b", times=LOOKED_AT, seconds=20.0)
    worker.hold("a")
    assert worker.said() == []


def test_the_doctor_is_told_of_the_oldest_and_of_those_with_the_most_children(worker):
    for n in range(NAMED + 5):
        worker.run(f"p{n}", seconds=10.0 + n)
    worker.run("young", seconds=1.0)
    told = running(worker.slots, NOW)
    assert len(told) == NAMED
    assert told[0] == {
        "id": f"p{NAMED + 4}", "task": "shop.answer", "kind": INTERACTIVE, "seconds": 64.0,
    }  # fmt: skip
    worker.hold("a", times=2)
    worker.hold(None)
    assert parents(worker.lanes) == {INTERACTIVE: {}, BATCH: {"a": 2}}
