"""A place that a worker was granted is given back exactly once, whatever happens to its task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from celery_fair.policy.kinds import BATCH
from celery_fair.resources.store import Ended, Want
from celery_fair.worker.clearing.places import Places

NOW = 1000.0


def want(number: int) -> Want:
    return Want(f"w1/{number}", BATCH, ("openai",))


def slot(outcome: str | None = None) -> Any:
    return SimpleNamespace(outcome=outcome)


def places(*leases: int, taken: Any = lambda slot: True) -> Places:
    found = Places(taken)
    for number in leases:
        found.grant(want(number), NOW)
    return found


def test_whoever_comes_first_gives_it_back():
    held = places(1)
    assert held.end("w1/1", began=True)
    assert not held.end("w1/1", began=False)
    assert held.report() == ([], [Ended("w1/1", True)])
    assert held.report() == ([], [])


def test_what_could_not_be_told_is_told_again_before_what_came_after():
    held = places(1, 2)
    held.end("w1/1", began=True)
    _, ended = held.report()
    held.end("w1/2", began=False)
    held.report_again(ended)
    assert held.report()[1] == [Ended("w1/1", True), Ended("w1/2", False)]


def test_a_slot_that_nobody_told_of_gives_its_place_back_too():
    taken = {1}
    held = places(1, 2, taken=lambda one: one.number in taken)
    for number in (1, 2):
        held.begin(f"w1/{number}", SimpleNamespace(number=number, outcome=None))
    held.sweep()
    assert held.report() == ([want(1)], [Ended("w1/2", True)])


def test_a_task_that_was_dropped_before_its_pool_began_has_used_nothing():
    held = places(1, taken=lambda one: False)
    held.begin("w1/1", slot("withdrawn"))
    held.sweep()
    assert held.report()[1] == [Ended("w1/1", False)]


def test_of_what_had_run_out_only_what_runs_is_kept():
    held = places(1, 2)
    assert held.claim("w1/1")
    held.begin("w1/1", slot())
    assert held.lose(["w1/1", "w1/2", "w1/3"]) == 1
    assert held.report() == ([want(1)], [Ended("w1/2", False)])


class Life(RuleBasedStateMachine):
    """Grants, begins, ends, losses and lost answers by chance, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.running: set[int] = set()
        self.places = Places(lambda one: one.number in self.running)
        self.granted: set[str] = set()
        self.told: list[str] = []

    numbers = st.integers(1, 5)

    @rule(number=numbers)
    def grant(self, number: int) -> None:
        if f"w1/{number}" not in self.granted:  # a lease is never granted again
            self.places.grant(want(number), NOW)
            self.granted.add(f"w1/{number}")

    @rule(number=numbers)
    def begin(self, number: int) -> None:
        if f"w1/{number}" in self.places:
            self.running.add(number)
            self.places.begin(f"w1/{number}", SimpleNamespace(number=number, outcome=None))

    @rule(number=numbers, tells=st.booleans())
    def stop(self, number: int, tells: bool) -> None:
        self.running.discard(number)
        if tells:
            self.places.end(f"w1/{number}", began=True)

    @rule(number=numbers)
    def lose(self, number: int) -> None:
        self.places.lose([f"w1/{number}"])

    @rule(reached=st.booleans())
    def report(self, reached: bool) -> None:
        self.places.sweep()
        _, ended = self.places.report()
        if reached:
            self.told += [lease for lease, _ in ended]
        else:
            self.places.report_again(ended)

    @invariant()
    def each_is_told_of_once(self) -> None:
        assert len(self.told) == len(set(self.told))

    def teardown(self) -> None:
        self.running.clear()
        self.places.end_all()
        self.report(reached=True)
        assert sorted(self.told) == sorted(self.granted)


TestLife = Life.TestCase
