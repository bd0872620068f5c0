"""Why a kind waits: one word, that of what hinders it most."""

from __future__ import annotations

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, Load, Policy, PolicySettings
from celery_fair.policy.fleet import FleetView, Member, fleet_view
from celery_fair.policy.waiting import Reason, why_waits

LONG = 1000.0
"""By then batch that waits is owed."""


def worker(interactive=0, batch=0, *, load, slots=4, **settings):
    policy = Policy(PolicySettings(**{"reserve": 1, **settings}), slots=slots, now=0.0)
    for _ in range(interactive):
        policy.start(INTERACTIVE, 0.0)
    for _ in range(batch):
        policy.start(BATCH, 0.0)
    policy.observe(load, 0.1)
    return policy


def why(policy, kind, interactive_held=0, batch_held=0, now=0.2):
    return why_waits(kind, policy.scene(interactive_held, batch_held, now))


def test_what_does_not_wait_has_no_reason():
    policy = worker(2, 2, load=Load(0, 0))
    assert why(policy, BATCH) is None
    assert why(policy, INTERACTIVE) is None


def test_what_is_held_waits_though_the_backlog_is_unknown():
    policy = worker(2, 2, load=Load(None, None))
    assert why(policy, BATCH) is None
    assert why(policy, BATCH, batch_held=1) is Reason.SLOTS_TAKEN


def test_what_has_come_since_the_last_count_waits_too():
    assert why(worker(2, 2, load=Load(0, 0)), BATCH, batch_held=1) is Reason.SLOTS_TAKEN


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_with_all_slots_taken_the_next_is_for_the_first_in_line(kind):
    loads = {INTERACTIVE: Load(3, 0), BATCH: Load(0, 3)}
    assert why(worker(2, 2, load=loads[kind]), kind) is Reason.SLOTS_TAKEN


def test_interactive_tasks_that_wait_come_before_batch():
    policy = worker(2, 2, load=Load(3, 3))
    assert why(policy, BATCH) is Reason.INTERACTIVE_FIRST
    assert why(policy, INTERACTIVE) is Reason.SLOTS_TAKEN


def test_batch_that_is_owed_comes_before_interactive_tasks():
    policy = worker(4, 0, load=Load(3, 3))
    assert why(policy, INTERACTIVE, now=LONG) is Reason.BATCH_OWED
    assert why(policy, BATCH, now=LONG) is Reason.SLOTS_TAKEN


def test_batch_at_its_share_waits_for_a_protected_gate():
    policy = worker(3, 1, load=Load(500, 9))
    policy.observe(Load(3, 9, interactive_oldest_wait_seconds=0.4), 0.2)
    assert why(policy, BATCH, now=0.3) is Reason.GATE_PROTECTED


def test_a_kind_at_its_own_ceiling_waits_for_that():
    assert why(worker(0, 2, load=Load(0, 9), batch_max_slots=2), BATCH) is Reason.CEILING
    capped = worker(2, 0, load=Load(1, 0), interactive_max_slots=2)
    assert why(capped, INTERACTIVE) is Reason.CEILING


def test_batch_leaves_the_reserve_of_this_worker_alone():
    assert why(worker(1, 2, load=Load(0, 9)), BATCH, 0, 2) is Reason.RESERVE


def test_batch_leaves_the_reserve_of_the_fleet_alone():
    """Its part of the reserve lies with the other worker, which is full."""
    view = fleet_of_two(me_running=1)
    policy = worker(0, 1, load=Load(0, 9), slots=2)
    policy.see_fleet(view, 0.2)
    assert why(policy, BATCH) is Reason.FLEET_RESERVE


def fleet_of_two(me_running: int) -> FleetView:
    me, other = member("b", me_running), member("a", 2)
    found = fleet_view(me, [other], 0.0, fresh=True)
    assert found is not None
    return found


def member(name: str, running: int) -> Member:
    return Member(
        name=name,
        slots=2,
        running_interactive=0,
        running_batch=running,
        interactive_rate=0.0,
        interactive_mean_seconds=0.0,
        batch_mean_seconds=1.0,
        batch_finished=9,
    )


def test_a_worker_that_listens_to_its_fleet_starts_no_batch():
    policy = worker(load=Load(0, 3))
    policy.listen(True, 0.2)
    assert why(policy, BATCH, 0, 1) is Reason.JOINING


def test_what_may_start_is_on_its_way_or_waits_for_the_brokers_word():
    assert why(worker(load=Load(2, 0)), INTERACTIVE) is Reason.ARRIVING
    assert why(worker(load=Load(0, 2)), BATCH) is Reason.ARRIVING
    assert why(worker(load=Load(0, 2)), BATCH, 0, 1) is Reason.ASKING


def test_one_kind_alone_waits_for_slots_only():
    policy = worker(0, 4, load=Load(0, 9))
    policy.serve([BATCH], 0.2)
    assert why(policy, BATCH) is Reason.SLOTS_TAKEN
