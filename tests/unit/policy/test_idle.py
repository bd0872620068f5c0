"""Why slots stand idle while something waits: one sentence each."""

from __future__ import annotations

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, Load, Policy, PolicySettings
from celery_fair.policy.idle import Idle, why_idle


def worker(interactive=0, batch=0, *, load, slots=4, **settings):
    policy = Policy(PolicySettings(**{"reserve": 1, **settings}), slots=slots, now=0.0)
    for _ in range(interactive):
        policy.start(INTERACTIVE, 0.0)
    for _ in range(batch):
        policy.start(BATCH, 0.0)
    policy.observe(load, 0.1)
    return policy


def idle(policy, *held):
    return why_idle(policy.scene(*held, 0.2))


def test_nothing_is_idle_where_all_slots_are_taken_or_nothing_waits():
    assert idle(worker(2, 2, load=Load(9, 9)), 1, 1) is None
    assert idle(worker(1, 1, load=Load(0, 0)), 0, 0) is None
    assert idle(worker(1, 1, load=Load(None, None)), 0, 0) is None


def test_the_last_free_slot_is_kept_for_interactive_tasks():
    assert idle(worker(1, 2, load=Load(0, 9)), 0, 2) == (Idle.RESERVE, 1)


def test_batch_at_its_share_waits_while_interactive_tasks_are_protected():
    policy = worker(0, 1, load=Load(500, 9))
    policy.observe(Load(0, 9, interactive_oldest_wait_seconds=0.4), 0.2)
    assert idle(policy, 0, 2) == (Idle.PROTECTED, 3)


def test_a_kind_at_its_ceiling_waits():
    assert idle(worker(0, 2, load=Load(0, 9), batch_max_slots=2), 0, 1) == (Idle.CEILING, 2)
    capped = worker(2, 0, load=Load(1, 0), interactive_max_slots=2)
    assert idle(capped, 1, 0) == (Idle.CEILING, 1)


def test_a_worker_that_listens_to_its_fleet_starts_no_batch():
    policy = worker(load=Load(0, 3))
    policy.listen(True, 0.2)
    assert idle(policy, 0, 1) == (Idle.JOINING, 3)


@pytest.mark.parametrize(
    ("load", "held", "reason"),
    [
        (Load(2, 0), (0, 0), Idle.ARRIVING),
        (Load(0, 2), (0, 0), Idle.ARRIVING),
        (Load(0, 2), (0, 1), Idle.ASKING),
    ],
)
def test_what_may_start_is_on_its_way_or_waits_for_the_brokers_word(load, held, reason):
    assert idle(worker(load=load), *held) == (reason, 2)


def test_what_is_unknown_counts_as_what_is_held():
    assert idle(worker(1, 2, load=Load(None, None)), 0, 1) == (Idle.RESERVE, 1)
