"""A worker asks running tasks to yield: the right ones, at once, and no longer than needed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.fleet import fleet_view
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.policy.load import Load
from celery_fair.policy.yields import YieldRules
from celery_fair.worker.slots import Slots
from celery_fair.worker.yielding import Asking
from celery_fair.worker.yielding_inline import LOOK_SECONDS, InlineAsking
from celery_fair.yielding.board import digest_of


class Rig:
    """A worker of so many slots, all of which batch tasks have had since time 0."""

    def __init__(self, slots=4, reserve=0):
        self.policy = Policy(PolicySettings(reserve=reserve), slots=slots, now=0.0)
        self.slots = Slots()
        self.lane = SimpleNamespace(held=[])
        self.lanes = {INTERACTIVE: self.lane}
        self.asking = Asking(self, slots, lambda: YieldRules(1.0, 0.05))
        self.board = self.asking.board
        self.numbers = {}
        self.running = [self.start(f"b{number}") for number in range(slots)]
        self.policy.observe(Load(0, 100), 0.0)

    def start(self, id, kind=BATCH, at=0.0):
        self.policy.start(kind, at)
        task = SimpleNamespace(name=id.rstrip("0123456789"))
        return self.slots.take(kind, SimpleNamespace(id=id, task=task), at)

    def tick(self, now):
        self.asking.tick(now)
        self.policy.observe(Load(0, 100), now)

    def can_yield(self, *numbers, at=0.0):
        for number in numbers:
            self.numbers[number] = self.board.enter(number + 1, digest_of(f"b{number}"), at)

    def asked(self):
        cells = self.board.bytes
        return {n for n, serial in self.numbers.items() if cells[self.board.at(n + 1)] == serial}


@pytest.fixture
def rig():
    return Rig()


def test_the_one_look_that_all_pay_for_is_whether_a_task_could_ever_yield(rig):
    rig.asking.tick(2.0)
    assert not rig.asking.possible
    rig.can_yield(0)
    rig.asking.tick(2.0)
    assert rig.asking.possible
    rig.asking.enforcing = False
    rig.asking.tick(2.0)
    assert not rig.asking.possible


def test_one_is_asked_for_each_that_waits_and_only_those_that_can(rig):
    rig.can_yield(1, 3)
    rig.lane.held = ["i"]
    rig.asking.look(2.0)
    assert rig.asked() == {1}
    rig.lane.held = ["i", "i", "i"]
    rig.asking.look(2.0)
    assert rig.asked() == {1, 3}
    rig.lane.held = []
    rig.asking.look(2.1)
    assert rig.asked() == set()
    assert rig.asking.figures.report()["withdrawn"] == 2


def test_one_that_is_on_its_way_out_is_still_counted_on(rig):
    """Between leaving its cell and its slot, it publishes its continuation."""
    rig.can_yield(0, 1)
    rig.lane.held = ["i"]
    rig.asking.look(2.0)
    rig.board.react(1, 2.01)
    rig.board.leave(1)
    rig.asking.look(2.02)
    assert rig.asked() == {0}, "0 has left its cell, and 1 is not asked in its stead"
    rig.running[0].release()
    rig.running[0].finished_at = 2.03
    rig.asking.left(rig.running[0])
    assert not rig.asking.asked
    figures = rig.asking.figures.report()
    assert figures["slots_back"] == figures["reactions"] == 1
    assert figures["reaction_seconds"] == pytest.approx(0.01)
    assert figures["slot_back_seconds"] == pytest.approx(0.03)


def test_a_redelivered_or_other_kinds_task_of_that_cell_is_no_candidate(rig):
    rig.can_yield(0)
    rig.board.enter(2, digest_of("of a child that was killed"), 0.0)
    rig.slots.take(INTERACTIVE, SimpleNamespace(id="of a child that was killed"), 0.0)
    rig.lane.held = ["i", "i"]
    rig.asking.look(2.0)
    assert list(rig.asking.asked) == [rig.running[0]]


def test_it_says_for_how_many_interactive_tasks_a_slot_could_be_had(rig):
    assert rig.asking.tick(2.0) == 0
    rig.can_yield(0, 1, 2, 3)
    assert rig.asking.tick(0.5) == 0, "none has run for its minimum"
    assert rig.asking.tick(2.0) == 4, "of 4 slots less than one is guaranteed, and none is owed"
    wide = Rig(slots=8)
    wide.can_yield(*range(8))
    assert wide.asking.tick(2.0) == 6, "two of eight are guaranteed"


def test_one_that_was_asked_and_does_not_react_is_counted_on_no_more():
    rig = Rig(slots=4, reserve="auto")
    rig.can_yield(0, 1, 2, 3)
    for seconds in range(2, 20):
        rig.tick(float(seconds))
    assert rig.policy.reserve == 0
    rig.lane.held = ["i"]
    assert rig.asking.tick(20.0) == 4
    assert rig.asking.tick(20.9) == 4
    rig.tick(21.1)
    assert rig.policy.reserve >= 1
    assert rig.asking.tick(21.1) == 3


def test_batch_that_can_yield_stands_in_for_the_reserve_until_one_begins_that_may_not():
    rig = Rig(slots=4, reserve="auto")
    rig.can_yield(0, 1, 2)
    rig.tick(2.0)
    assert rig.policy.reserve == 2, "b3 was never seen to look"
    rig.can_yield(3)
    for seconds in range(3, 20):
        rig.tick(float(seconds))
    assert rig.policy.reserve == 0
    rig.asking.begins("b", 20.0)
    assert rig.policy.reserve == 0
    rig.asking.begins("other", 20.0)
    assert rig.policy.reserve >= 1, "at once: the next may take a slot for ten minutes"


@pytest.mark.parametrize("others", [0, 1])
def test_in_a_fleet_nobody_knows_what_the_others_tasks_can(others):
    rig = Rig(slots=4, reserve="auto")
    rig.can_yield(0, 1, 2, 3)
    for seconds in range(2, 90):
        me = rig.policy.member("me")
        there = [replace(me, name=f"w{n}") for n in range(others)]
        rig.policy.see_fleet(fleet_view(me, there, 0.0), float(seconds))
        rig.tick(float(seconds))
    assert (rig.policy.fleet_reserve == 0) == (others == 0)


def test_slots_that_come_back_late_are_no_reserve():
    rig = Rig(slots=4, reserve="auto")
    rig.can_yield(0, 1, 2, 3)
    rig.policy.slot_back_seconds = 0.5
    for seconds in range(2, 90):
        rig.tick(float(seconds))
    assert rig.policy.reserve >= 1


def test_paused_batch_is_asked_to_leave(rig):
    rig.can_yield(0, 1)
    rig.policy.pause([BATCH], 2.0)
    rig.asking.tick(2.0)
    assert rig.asked() == {0, 1}


def test_at_the_end_all_are_asked_but_not_by_a_worker_that_only_observes(rig):
    rig.can_yield(0)
    rig.asking.enforcing = False
    rig.asking.ask_all()
    assert rig.asked() == set()
    rig.asking.enforcing = True
    rig.asking.ask_all()
    rig.can_yield(1)
    assert rig.asked() == {0, 1}


# --- solo


class Solo:
    def __init__(self, monkeypatch, ready=1, workers=1):
        self.rig = Rig(slots=1)
        self.rig.can_yield(0)
        self.ready = ready
        self.runs = True
        scheduler = SimpleNamespace(
            dispatcher=self.rig, asking=self.rig.asking, lanes=self.rig.lanes,
            policy=self.rig.policy, measuring=SimpleNamespace(fleet_workers=workers),
            switching=SimpleNamespace(enforcing=True),
            backlog=SimpleNamespace(queues=lambda kind: ["celery"]),
            pool=SimpleNamespace(is_running=lambda: self.runs), c=SimpleNamespace(app=None),
        )  # fmt: skip
        self.draws = 0.5
        self.looks = InlineAsking(scheduler, lambda: self.draws)
        self.now, self.asked = 2.0, 0
        monkeypatch.setattr("celery_fair.worker.yielding_inline.monotonic", lambda: self.now)
        monkeypatch.setattr("celery_fair.worker.yielding_inline.InlineLink", lambda app: self)

    def ask(self, queues):
        self.asked += 1
        if self.ready is None:
            raise ConnectionError
        return SimpleNamespace(ready={"celery": self.ready})

    def close(self):
        self.closed = True


def test_a_solo_task_looks_now_and_then_and_yields_to_what_waits(monkeypatch):
    solo = Solo(monkeypatch, ready=0)
    assert not solo.looks()
    solo.ready = 1
    assert not solo.looks(), "too soon"
    solo.now += LOOK_SECONDS
    assert solo.looks()
    assert solo.asked == 2


def test_a_solo_task_does_not_look_before_its_minimum(monkeypatch):
    solo = Solo(monkeypatch)
    solo.now = 0.9
    assert not solo.looks()
    assert solo.asked == 0


def test_of_ten_solo_workers_about_one_yields_to_one_task(monkeypatch):
    solo = Solo(monkeypatch, workers=10)
    solo.draws = 0.11
    assert not solo.looks()
    solo.now += LOOK_SECONDS
    solo.draws = 0.09
    assert solo.looks()


def test_a_solo_task_yields_to_the_end_of_its_worker_whatever_waits(monkeypatch):
    solo = Solo(monkeypatch, ready=0)
    solo.runs = False
    assert solo.looks()
    assert solo.asked == 0
    solo.now += LOOK_SECONDS
    solo.looks._scheduler.switching.enforcing = False
    assert not solo.looks(), "it only observes"


def test_a_broker_that_is_away_costs_a_solo_task_little(monkeypatch):
    solo = Solo(monkeypatch, ready=None)
    assert not solo.looks()
    solo.now += LOOK_SECONDS
    assert not solo.looks()
    assert (solo.asked, solo.closed) == (1, True)
