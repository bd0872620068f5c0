"""What an engine that queues does to batch: the gate, the share, and that nothing starves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, Load, Mode, Policy, PolicySettings
from celery_fair.policy.engine import Engine
from celery_fair.policy.gate import Cause
from celery_fair.policy.waiting import Reason, why_waits
from tests.unit.policy.saturated import Saturated

ONLY_BATCH_WAITS = Load(0, 50, interactive_lane_empty=True)


def under(pressure, load=ONLY_BATCH_WAITS):
    return replace(load, engine_pressure=pressure)


def policy_of(*, slots=4, serves=KINDS, **given):
    return Policy(PolicySettings(reserve=1, **given), slots=slots, now=0.0, serves=serves)


def started(policy, now):
    """How many batch tasks start in free slots, with as many held as one likes."""
    number = 0
    while policy.pick(0, 9, now) == BATCH:
        policy.start(BATCH, now)
        number += 1
    return number


def test_it_queues_over_one_and_until_a_half():
    engine = Engine()
    seen = []
    for pressure in (0.9, 1.0, 1.01, 0.8, 0.51, 0.5, 1.0, 2.0, None):
        engine.see(pressure)
        seen.append(engine.queueing)
    assert seen == [False, False, True, True, True, False, False, True, False]


@pytest.mark.parametrize(
    ("pressure", "share"), [(1.01, 0.2 / 1.01), (2.0, 0.1), (4.0, 0.05), (50.0, 0.05)]
)
def test_the_share_falls_in_proportion_down_to_its_least(pressure, share):
    policy = policy_of(engine_batch_share=0.05)
    policy.observe(under(pressure), 0.1)
    assert policy.view(0.1).share == pytest.approx(share)


def test_without_a_setting_a_quarter_of_the_share_is_left():
    policy = policy_of(batch_share=0.2)
    policy.observe(under(1000.0), 0.1)
    assert policy.view(0.1).share == pytest.approx(0.05)


def test_aging_lifts_what_the_engine_lowers():
    policy = policy_of(batch_max_wait_seconds=10, engine_batch_share=0.05)
    policy.observe(replace(under(2.0), batch_oldest_wait_seconds=20), 0.1)
    assert policy.view(0.1).share == pytest.approx(0.2)


@pytest.mark.parametrize("serves", [KINDS, (BATCH,)])
def test_the_gate_shuts_though_nothing_interactive_waits_and_opens_again(serves):
    policy = policy_of(serves=serves)
    assert policy.observe(under(1.5), 1.0) is Mode.PROTECTED
    assert policy.view(1.0).mode_cause is Cause.ENGINE
    assert started(policy, 1.0) == 0
    assert policy.observe(under(0.8), 2.0) is None
    assert policy.observe(under(0.4), 3.0) is Mode.OPEN
    assert policy.view(3.0).share == 0.2
    assert started(policy, 3.0) == (3 if len(serves) == 2 else 4)


@pytest.mark.parametrize("serves", [KINDS, (BATCH,)])
def test_an_unknown_pressure_changes_nothing(serves):
    policy = policy_of(serves=serves)
    policy.observe(under(9.0), 1.0)
    assert policy.observe(under(None), 2.0) is Mode.OPEN
    assert policy.view(2.0).engine_pressure is None
    assert "no longer queues" not in policy.view(2.0).mode_reason


def test_what_waits_here_still_protects_once_the_engine_is_idle():
    policy = policy_of()
    policy.observe(under(9.0), 1.0)
    assert policy.observe(under(0.0, Load(60, 50)), 2.0) is None
    assert policy.mode is Mode.PROTECTED


def test_interactive_at_its_ceiling_does_not_open_it():
    policy = policy_of(interactive_max_slots=1)
    policy.start(INTERACTIVE, 0.5)
    assert policy.observe(under(9.0), 1.0) is Mode.PROTECTED
    assert policy.observe(under(9.0), 2.0) is None


def test_a_worker_of_interactive_tasks_alone_has_nothing_to_shut():
    policy = policy_of(serves=(INTERACTIVE,))
    assert policy.observe(under(9.0), 1.0) is None


def test_a_pause_of_interactive_leaves_it_shut():
    policy = policy_of()
    policy.observe(under(9.0), 1.0)
    assert policy.pause([INTERACTIVE], 1.1) is None
    assert policy.mode is Mode.PROTECTED


def test_why_batch_waits_is_the_engine():
    policy = policy_of()
    policy.observe(under(9.0), 1.0)
    assert why_waits(BATCH, policy.scene(0, 1, 1.0)) is Reason.ENGINE


def test_a_share_in_tasks_is_not_starved_where_no_interactive_task_starts():
    policy = policy_of(share_unit="tasks")
    policy.observe(under(9.0), 1.0)
    assert started(policy, 1.0) == 1


def alone(slots, share, pressure, seconds, *, serves=KINDS):
    """A worker on which only batch waits, while the engine queues all the time."""
    policy = policy_of(slots=slots, batch_share=share, serves=serves)
    worker = Saturated(policy, (1.0, 1.0), seconds, batch_alone=True, engine_pressure=pressure)
    until = 40 * seconds[1] / max(share / pressure, share / 4) / slots  # some forty batch tasks
    worker.run(until)
    return worker, until


@settings(max_examples=50, deadline=None)
@given(
    slots=st.integers(1, 8),
    share=st.sampled_from([0.1, 0.2, 0.5]),
    pressure=st.floats(1.01, 20),
    seconds=st.floats(0.5, 5),
    serves=st.sampled_from([KINDS, (BATCH,)]),
)
def test_batch_gets_what_is_left_of_its_share_and_no_more(slots, share, pressure, seconds, serves):
    worker, until = alone(slots, share, pressure, (seconds * 0.5, seconds), serves=serves)
    left = max(share / pressure, share / 4)
    longest = max(worker.longest_run, 1.0)
    assert worker.batch_slot_seconds >= left * slots * until - 2 * longest - 1e-6
    guaranteed = math.ceil(slots * left - 1e-9)
    assert worker.batch_slot_seconds <= left * slots * until + (guaranteed + 1) * longest


@settings(max_examples=25, deadline=None)
@given(
    slots=st.integers(1, 8),
    share=st.sampled_from([0.1, 0.2, 0.5]),
    pressure=st.floats(1.01, 20),
    seconds=st.floats(0.5, 5),
    unit=st.sampled_from(["seconds", "tasks"]),
)
def test_beside_interactive_tasks_that_always_wait_too(slots, share, pressure, seconds, unit):
    policy = policy_of(slots=slots, batch_share=share, share_unit=unit)
    worker = Saturated(policy, (0.2, 1.0), (seconds * 0.5, seconds), engine_pressure=pressure)
    left = max(share / pressure, share / 4)
    until = 20 * seconds / left / slots
    worker.run(until)
    longest = max(worker.longest_run, 1.0)
    guaranteed = math.ceil(slots * left - 1e-9)
    if unit == "tasks":  # its turns, or as many as its guaranteed slots have time for
        turns = left / (1 - left) * worker.interactive_starts - 2 * slots - 2
        busy = guaranteed * (until - 2 * longest)
        assert len(worker.batch_starts) >= turns or worker.batch_slot_seconds >= busy
        return
    assert worker.batch_slot_seconds >= left * slots * until - 2 * longest - 1e-6
    assert worker.batch_slot_seconds <= left * slots * until + (guaranteed + 1) * longest


@settings(max_examples=100)
@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.floats(0.05, 2)), max_size=30))
def test_it_opens_whatever_was_seen_before(script):
    policy, now = policy_of(), 0.0
    for pressure, pause in script:
        now += pause
        policy.observe(under(pressure), now)
        assert policy.view(now).share >= 0.05 - 1e-9
    policy.observe(under(0.2), now + 1)
    assert policy.mode is Mode.OPEN
    assert policy.view(now + 1).share == 0.2
