"""A kind that is paused, what it leaves the other, and what the promises are afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.policy import BATCH, INTERACTIVE, Load, Mode, Policy, PolicySettings
from celery_fair.policy.idle import Idle
from celery_fair.policy.idle import why_idle as why
from tests.unit.policy.saturated import Saturated
from tests.unit.policy.test_promises import (
    SHARES,
    SLOTS,
    TOLERANCE,
    life,
    policies,
    seconds,
    steps,
)


def policy(slots=4, **config):
    made = Policy(PolicySettings(**{"reserve": 1, **config}), slots=slots, now=0.0)
    made.observe(Load(5, 5), 0.1)
    return made


def filled(policy, held=(9, 9), now=1.0):
    """What is started while there is a free slot."""
    started = []
    while (kind := policy.pick(*held, now)) is not None:
        policy.start(kind, now)
        started.append(kind)
    return started


@settings(max_examples=300)
@given(policies(), st.lists(steps(), max_size=30), st.sets(st.sampled_from([INTERACTIVE, BATCH])))
def test_nothing_starts_of_what_is_paused_and_its_lane_has_no_credit(made, script, kinds):
    paused, _ = made
    paused.pause(kinds, 0.0)
    for _, _, kind in life(paused, script):
        assert kind not in kinds
        credits = paused.credits(1000.0)
        for name, credit in ((INTERACTIVE, credits.interactive), (BATCH, credits.batch)):
            assert name not in kinds or credit == 0


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_no_time_in_a_pause_counts_for_the_share_that_batch_has_received(kind):
    made = policy()
    filled(made, now=0.1)
    made.observe(Load(5, 5), 10.0)
    received = made.view(10.0).share_received
    made.pause([kind], 10.0)
    made.observe(Load(5, 5), 500.0)
    assert made.view(500.0).share_received == received is not None


def test_interactive_has_all_slots_while_batch_is_paused_and_batch_the_reserve_too():
    one = policy()
    one.pause([BATCH], 0.5)
    assert filled(one) == [INTERACTIVE] * 4
    other = policy()
    other.pause([INTERACTIVE], 0.5)
    assert filled(other) == [BATCH] * 4


def test_paused_interactive_tasks_close_no_gate_and_open_a_closed_one():
    closed = policy()
    closed.observe(Load(500, 5, interactive_oldest_wait_seconds=5.0), 0.5)
    assert closed.mode is Mode.PROTECTED
    assert closed.pause([INTERACTIVE], 0.6) is Mode.OPEN
    assert "interactive is paused" in closed.view(0.6).mode_reason
    for tick in range(7, 30):
        assert closed.observe(Load(500, 5, interactive_oldest_wait_seconds=9.0), tick / 10) is None
    assert closed.mode is Mode.OPEN


def test_both_paused_and_resumed_are_as_before():
    paused = policy()
    paused.pause([BATCH, INTERACTIVE], 0.5)
    assert filled(paused) == []
    paused.pause([], 0.6)
    assert filled(paused, held=(0, 9)) == [BATCH] * 3, "with one in reserve"


def test_a_pause_owes_nothing_however_long_it_was():
    paused = policy(slots=8, batch_share=0.5)
    paused.pause([BATCH], 0.1)
    for tick in range(600):
        paused.observe(Load(500, 500), tick / 10)
    paused.pause([], 60.0)
    assert paused.view(60.0).debt_seconds == 0.0


def test_a_kind_whose_queues_come_and_go_stays_paused():
    paused = policy()
    paused.pause([BATCH], 0.2)
    paused.serve([INTERACTIVE], 0.3)
    paused.serve([INTERACTIVE, BATCH], 0.4)
    assert BATCH not in filled(paused)


@pytest.mark.parametrize(
    ("paused", "load", "found"),
    [
        ([BATCH], Load(0, 9), (Idle.PAUSED, 4)),
        ([BATCH], Load(0, 2), (Idle.PAUSED, 2)),
        ([INTERACTIVE], Load(3, 0), (Idle.PAUSED, 3)),
        ([BATCH, INTERACTIVE], Load(1, 1), (Idle.PAUSED, 1)),
        ([BATCH], Load(3, 9), (Idle.ARRIVING, 3)),
        ([INTERACTIVE], Load(3, 2), (Idle.ARRIVING, 2)),
        ([BATCH], Load(0, 0), None),
    ],
)
def test_an_idle_slot_is_put_down_to_a_pause_if_nothing_else_could_use_it(paused, load, found):
    idle = policy()
    idle.pause(paused, 0.5)
    idle.observe(load, 1.0)
    assert why(idle.scene(0, 0, 1.0)) == found


@dataclass
class Paused(Saturated):
    """Batch is paused for a while; what it gets after that is counted."""

    begins: float = 0.0
    ends: float = 0.0
    in_pause: list[float] = field(default_factory=list)
    at_resume: float | None = None

    def _tick(self, ends):
        if self.begins <= self.now < self.ends:
            self.policy.pause([BATCH], self.now)
        elif self.now >= self.ends and self.at_resume is None:
            self.at_resume = self.now
            self.policy.pause([], self.now)
            # What has run through the pause goes on, and is paid for.
            self.batch_slot_seconds = sum(e[0] - self.now for e in ends if e[2] == BATCH)
            self.longest_without_free_slot = 0.0
        super()._tick(ends)


@settings(max_examples=80)
@given(
    slots=st.integers(1, 10),
    share=SHARES,
    interactive=seconds(0.02, 3),
    batch=seconds(1, 8),
    pause=seconds(1, 200),
    seed=st.integers(0, 10**6),
)
def test_after_a_pause_batch_gets_its_share_again_and_no_more(
    slots, share, interactive, batch, pause, seed
):
    begins = 20.0
    worker = Paused(
        Policy(PolicySettings(batch_share=share, reserve=1), slots=slots, now=0.0),
        (interactive, interactive), (batch, batch), seed, begins=begins, ends=begins + pause,
    )  # fmt: skip
    until = begins + pause + 12 * batch / share / slots + 10
    worker.run(until)
    assert worker.at_resume is not None
    assert not [at for at in worker.batch_starts if begins + 0.3 < at < begins + pause]
    longest = max(worker.longest_run, 1.0)
    fair = share * slots * (until - worker.at_resume)
    late = share * slots * worker.longest_without_free_slot
    assert worker.batch_slot_seconds >= fair - 2 * longest - late - TOLERANCE
    guaranteed = math.ceil(slots * share - 1e-9)
    assert worker.batch_slot_seconds <= fair + (guaranteed + 1) * longest + TOLERANCE


# Other settings, while it runs


@settings(max_examples=200)
@given(SLOTS, SHARES, SHARES, st.lists(steps(), min_size=3, max_size=30))
def test_p3_holds_by_the_new_numbers(slots, before, after, script):
    changed = Policy(PolicySettings(batch_share=before, reserve=2), slots=slots, now=0.0)
    for _ in life(changed, script):
        pass
    config = PolicySettings(batch_share=after, reserve=1)
    changed.reconfigure(config, 200.0)
    script = [(action, argument, 200.0 if not n else p) for n, (action, argument, p)
              in enumerate(script)]  # fmt: skip
    for view, _, kind in life(changed, script):
        if kind == BATCH:
            guaranteed = math.ceil(view.slots * after - 1e-9)
            free = view.slots - view.running_batch - view.running_interactive - 1
            owed = view.batch_owed and view.running_batch + 1 <= guaranteed
            assert owed or free >= view.reserve
            assert view.reserve <= max(view.slots - guaranteed, 0)


def test_a_change_of_settings_keeps_debt_and_mode():
    changed = policy(slots=8)
    changed.observe(Load(500, 50), 0.2)
    for tick in range(3, 60):
        changed.observe(Load(500, 50), tick / 10)
    before = changed.view(6.0)
    assert before.mode is Mode.PROTECTED
    assert before.debt_seconds > 0
    changed.reconfigure(PolicySettings(batch_share=0.5, reserve=0), 6.0)
    after = changed.view(6.0)
    assert (after.mode, after.mode_since) == (before.mode, before.mode_since)
    assert after.debt_seconds == pytest.approx(before.debt_seconds)
    assert (after.share, after.owed_ceiling) == (0.5, 4)


def test_thresholds_of_the_gate_are_the_new_ones():
    changed = policy()
    changed.reconfigure(PolicySettings(protect_backlog=100, protect_wait_seconds=60.0), 0.2)
    assert changed.observe(Load(50, 0, interactive_oldest_wait_seconds=5.0), 0.3) is None
    changed.reconfigure(PolicySettings(protect_backlog=10), 0.4)
    assert changed.observe(Load(50, 0), 0.5) is Mode.PROTECTED


def test_a_debt_is_worth_as_many_tasks_in_the_other_unit():
    changed = policy(slots=4, batch_share=0.5)
    for _ in range(4):
        changed.start(BATCH, 0.1)
        changed.finish(BATCH, 2.1, 2.0)
    for tick in range(20):
        changed.observe(Load(50, 50), 2.2 + tick / 10)
    seconds_owed = changed.view(4.1).debt_seconds
    changed.reconfigure(PolicySettings(batch_share=0.5, share_unit="tasks"), 4.1)
    tasks_owed = changed.view(4.1).debt_seconds
    assert tasks_owed == pytest.approx(seconds_owed / 2.0, rel=0.2)
    changed.reconfigure(PolicySettings(batch_share=0.5), 4.1)
    assert changed.view(4.1).debt_seconds == pytest.approx(seconds_owed, rel=0.2)
