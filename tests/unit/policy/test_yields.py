"""Who is asked to yield: as many as interactive tasks wait, those that have run, never the last."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.policy.load import Load
from celery_fair.policy.yields import Candidate, Demand, YieldRules, able, choose

RULES = YieldRules(min_seconds=1.0, max_overhead=0.05)


def running(*seconds, asked=()):
    return [
        Candidate(number, run, 0.0, asked[number] if number < len(asked) else None)
        for number, run in enumerate(seconds)
    ]


def test_as_many_are_asked_as_wait_and_those_first_that_have_run_longest():
    demand = Demand(interactive_waiting=2, free=0, batch_running=4, batch_floor=1)
    assert choose(demand, running(5.0, 9.0, 2.0, 7.0), RULES) == ([1, 3], [])


def test_none_is_asked_for_whom_a_slot_is_free_or_will_be_at_once():
    assert Demand(1, 1, 4, 1).wanted == 0
    soon = Demand(2, 0, 4, 1, interactive_running=2, interactive_seconds=0.02)
    assert soon.wanted == 0, "of two that take 20 ms, five end within 50 ms"
    assert Demand(2, 0, 4, 1, 2, 1.0).wanted == 2


def test_none_is_asked_before_its_minimum_or_before_its_set_up_is_earned():
    demand = Demand(3, 0, 3, 0)
    young = Candidate("young", 0.9, 0.0)
    heavy = Candidate("heavy", 99.0, 5.0)
    ready = Candidate("ready", 101.0, 5.0)
    assert choose(demand, [young, heavy, ready], RULES).ask == ["ready"]
    assert able([young, heavy, ready], RULES) == [ready]


def test_the_guaranteed_ones_are_left_alone_however_many_wait():
    assert choose(Demand(9, 0, 4, 2), running(9, 8, 7, 6), RULES).ask == [0, 1]
    assert choose(Demand(9, 0, 2, 2), running(9, 8), RULES).ask == []


def test_those_that_are_asked_already_count_and_one_that_does_not_react_is_not_waited_for():
    demand = Demand(1, 0, 3, 0)
    assert choose(demand, running(9, 8, 7, asked=[0.5]), RULES).ask == []
    assert choose(demand, running(9, 8, 7, asked=[1.5]), RULES).ask == [1]
    assert choose(demand, running(9, 8, 7, asked=[1.5, 0.1]), RULES) == ([], [])


def test_a_question_is_withdrawn_with_its_reason_the_latest_first():
    assert choose(Demand(1, 0, 3, 0), running(9, 8, 7, asked=[0.5, 0.2]), RULES).withdraw == [1]
    assert choose(Demand(0, 0, 3, 0), running(9, 8, 7, asked=[0.5, 0.2]), RULES).withdraw == [1, 0]


@given(
    demand=st.builds(
        Demand,
        *(st.integers(0, most) for most in (20, 5, 20, 20, 0)),
        st.just(0.0),
    ),
    tasks=st.lists(
        st.tuples(st.floats(0, 300), st.floats(0, 10), st.none() | st.floats(0, 5)), max_size=20
    ),
)
def test_whatever_is_chosen_keeps_every_rule(demand, tasks):
    candidates = [Candidate(number, *task) for number, task in enumerate(tasks)]
    demand = demand._replace(batch_running=max(demand.batch_running, len(candidates)))
    ask, withdraw = choose(demand, candidates, RULES)
    asked = {one.key for one in candidates if one.asked_seconds is not None}
    assert not (ask and withdraw)
    assert set(withdraw) <= asked
    assert not set(ask) & asked
    assert all(RULES.may_be_asked(candidates[key]) for key in ask)
    if ask:
        left = demand.batch_running - len(asked) - len(ask)
        assert left >= demand.batch_floor
        assert len(ask) <= demand.interactive_waiting


# --- in time: two jobs, one slot after another, and interactive tasks that never stop coming


class Simulated:
    """A worker with batch tasks without end, each of which sets up and then works in items."""

    def __init__(self, seed, *, slots, setup, rate, item=0.1):
        self.draw, self.rate, self.setup, self.item = random.Random(seed), rate, setup, item
        self.policy = Policy(PolicySettings(reserve=0), slots=slots, now=0.0)
        self.now, self.observed_at, self.comes_at = 0.0, -1.0, self.draw.expovariate(rate)
        self.batch, self.interactive, self.waiting = [], [], []
        self.ended, self.waits = [], []

    def run(self, seconds=300.0):
        while self.now < seconds:
            self.end()
            if self.now >= self.comes_at:
                self.waiting.append(self.now)
                self.comes_at = self.now + self.draw.expovariate(self.rate)
            if self.now - self.observed_at >= 0.1:
                self.observed_at = self.now
                self.policy.observe(Load(len(self.waiting), 100), self.now)
            self.start()
            self.ask()
            self.now += 0.01
        return self

    def end(self):
        for run in list(self.batch):
            items = max(int((self.now - run["began"] - self.setup) / self.item), 0)
            if items > run["items"] and run["asked"] is not None:
                self.batch.remove(run)
                self.ended.append(self.now - run["began"])
                self.policy.finish(BATCH, self.now, self.now - run["began"])
            run["items"] = items
        for end in [end for end in self.interactive if end <= self.now]:
            self.interactive.remove(end)
            self.policy.finish(INTERACTIVE, self.now, 0.05)

    def start(self):
        while kind := self.policy.pick(len(self.waiting), 100, self.now, not self.waiting):
            self.policy.start(kind, self.now)
            if kind == BATCH:
                self.batch.append({"began": self.now, "asked": None, "items": 0})
            else:
                self.waits.append(self.now - self.waiting.pop(0))
                self.interactive.append(self.now + 0.05)

    def ask(self):
        demand = self.policy.demand(len(self.waiting), self.now)
        ask, withdraw = choose(demand, list(self.candidates()), RULES)
        for number in [*ask, *withdraw]:
            self.batch[number]["asked"] = self.now if number in ask else None
        leaving = sum(run["asked"] is not None for run in self.batch)
        assert not ask or len(self.batch) - leaving >= demand.batch_floor

    def candidates(self):
        for number, run in enumerate(self.batch):
            since = None if run["asked"] is None else self.now - run["asked"]
            if self.now - run["began"] >= self.setup:
                yield Candidate(number, self.now - run["began"], self.setup, since)


@pytest.mark.parametrize("setup", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("slots", [1, 4])
def test_jobs_cannot_evict_each_other_for_ever(slots, setup):
    """The part of batch's time that goes into setting up again stays under its bound, always."""
    worker = Simulated(1, slots=slots, setup=setup, rate=3.0).run()
    shortest = max(RULES.min_seconds, setup / RULES.max_overhead)
    assert len(worker.waits) > 100, "interactive tasks ran"
    assert len(worker.ended) > 3, "batch tasks yielded"
    assert all(seconds >= shortest for seconds in worker.ended)
    assert len(worker.ended) * setup <= RULES.max_overhead * sum(worker.ended)


def test_an_interactive_task_waits_for_about_an_item_where_it_waited_for_a_whole_task():
    waits = sorted(Simulated(2, slots=4, setup=0.0, rate=1.0).run().waits)
    assert waits[int(0.95 * len(waits))] <= 0.2
