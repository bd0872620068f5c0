"""Idle slots are charged to what kept them idle."""

from __future__ import annotations

import pytest

from celery_fair.observe.record import CHANGES, LONGEST_TICK_SECONDS, Record
from celery_fair.observer import GateChange
from celery_fair.policy import BATCH, Load, Policy, PolicySettings
from celery_fair.policy.idle import Idle


@pytest.fixture
def policy():
    """Four slots, one batch task running, one slot kept, and more batch than fits."""
    policy = Policy(PolicySettings(reserve=1), slots=4, now=0.0)
    for _ in range(3):
        policy.start(BATCH, 0.0)
    policy.observe(Load(0, 9), 0.1)
    return policy


def test_the_time_since_the_last_tick_is_charged(policy):
    record = Record(0.0)
    record.tick(policy.scene(0, 1, 0.1), 0.1)
    record.tick(policy.scene(0, 1, 0.1), 0.3)
    assert record.idle_seconds == {
        **dict.fromkeys(Idle, 0.0),
        Idle.RESERVE: pytest.approx(0.3),
    }


def test_nothing_is_charged_while_nothing_waits(policy):
    policy.observe(Load(0, 0), 0.2)
    record = Record(0.0)
    record.tick(policy.scene(0, 0, 0.1), 1.0)
    assert not any(record.idle_seconds.values())


def test_a_loop_that_stood_still_knows_nothing_of_that_time(policy):
    record = Record(0.0)
    record.tick(policy.scene(0, 1, 0.1), LONGEST_TICK_SECONDS + 0.1)
    assert not any(record.idle_seconds.values())


def test_the_history_of_the_gate_is_bounded():
    record = Record(0.0)
    for number in range(CHANGES + 5):
        record.changes.append(GateChange(float(number), "open", "empty", "nothing waits"))
    assert [change.at for change in record.changes] == [float(n) for n in range(5, CHANGES + 5)]
