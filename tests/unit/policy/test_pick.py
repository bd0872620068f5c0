"""Which kind starts next."""

from __future__ import annotations

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, Load, Mode, Policy, PolicySettings

BOTH_WAIT = Load(1, 1)
ONLY_BATCH = Load(0, 5, interactive_lane_empty=True)


def worker(slots=8, *, reserve=1, batch=0, interactive=0, serves=("interactive", "batch"), **more):
    policy = Policy(PolicySettings(reserve=reserve, **more), slots=slots, now=0.0, serves=serves)
    for _ in range(batch):
        policy.start(BATCH, 0.0)
    for _ in range(interactive):
        policy.start(INTERACTIVE, 0.0)
    return policy


def fill(policy, *, interactive=9, batch=9, now=0.0, empty=True):
    started = []
    while (kind := policy.pick(interactive, batch, now, empty)) is not None:
        policy.start(kind, now)
        started.append(kind)
    return started


def protect(policy, now):
    policy.observe(Load(500, 5), now)
    assert policy.mode is Mode.PROTECTED


def test_interactive_goes_first():
    assert worker().pick(1, 1, 0.0) == INTERACTIVE


def test_nothing_starts_without_a_free_slot():
    assert worker(2, batch=1, interactive=1).pick(1, 1, 0.0) is None


def test_nothing_starts_when_nothing_is_held():
    assert worker().pick(0, 0, 0.0) is None


def test_batch_alone_leaves_the_reserve_free():
    assert fill(worker(reserve=2), interactive=0) == [BATCH] * 6


def test_interactive_alone_takes_every_slot():
    assert fill(worker(reserve=2), batch=0) == [INTERACTIVE] * 8


def test_the_reserve_floats_however_many_interactive_tasks_run():
    assert fill(worker(reserve=2, interactive=5), interactive=0) == [BATCH]


def test_one_slot_has_no_reserve():
    assert fill(worker(1, reserve="auto"), interactive=0) == [BATCH]


def test_protected_batch_gets_no_more_than_its_share():
    policy = worker()
    protect(policy, 0.1)
    assert fill(policy, interactive=0, now=0.1) == [BATCH, BATCH]


def test_protected_batch_waits_until_the_interactive_lane_came_up_empty():
    policy = worker()
    protect(policy, 0.1)
    assert policy.pick(0, 1, 0.1, interactive_empty=False) is None
    assert policy.pick(0, 1, 0.1, interactive_empty=True) == BATCH


def test_without_a_reserve_batch_waits_until_the_interactive_lane_came_up_empty():
    policy = worker(reserve=0)
    assert policy.pick(0, 1, 0.0, interactive_empty=False) is None
    assert policy.pick(0, 1, 0.0, interactive_empty=True) == BATCH


def test_with_a_reserve_batch_needs_no_such_answer():
    assert worker(reserve=1).pick(0, 1, 0.0, interactive_empty=False) == BATCH


def test_owed_batch_goes_before_interactive_and_into_the_reserve():
    policy = worker(interactive=7)
    policy.observe(BOTH_WAIT, 0.0)
    assert policy.pick(1, 1, 0.62) == INTERACTIVE  # 1.6 * 0.62 = 0.992 slot-seconds
    assert policy.pick(1, 1, 0.63, interactive_empty=False) == BATCH  # 1.008 cover the unknown 1 s


def test_owed_batch_takes_no_more_slots_than_are_guaranteed():
    policy = worker(interactive=5)
    policy.observe(BOTH_WAIT, 0.0)
    assert fill(policy, now=5.0) == [BATCH, BATCH, INTERACTIVE]


def test_interactive_stops_at_its_hard_ceiling_and_leaves_the_slots_to_batch():
    policy = worker(reserve=4, interactive_max_slots=3)
    assert fill(policy) == [INTERACTIVE] * 3 + [BATCH] * 5


def test_batch_asks_nobody_where_interactive_is_at_its_hard_ceiling():
    """Else the slots that interactive may not have stand idle, as long as any of it waits here."""
    policy = worker(reserve=0, interactive_max_slots=3)
    assert fill(policy, empty=False) == [INTERACTIVE] * 3 + [BATCH] * 5


def test_the_reserve_counts_only_interactive_tasks_that_may_still_start():
    policy = worker(reserve=4, interactive_max_slots=3, interactive=2)
    assert fill(policy, interactive=0) == [BATCH] * 5


def test_an_interactive_backlog_beyond_its_hard_ceiling_protects_nothing():
    policy = worker(interactive_max_slots=3, interactive=3)
    policy.observe(Load(500, 5), 0.1)
    assert policy.mode is Mode.OPEN


def test_batch_stops_at_its_hard_ceiling():
    assert fill(worker(batch_max_slots=3), interactive=0) == [BATCH] * 3


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_a_worker_that_serves_one_kind_gives_it_every_slot(kind):
    policy = worker(4, reserve=2, serves=[kind])
    policy.observe(Load(500, 500), 0.1)
    assert policy.mode is Mode.OPEN
    assert fill(policy, now=0.1, empty=False) == [kind] * 4


def test_a_grown_pool_is_used_at_once():
    policy = worker(2, batch=1)
    assert policy.pick(0, 1, 0.0) is None
    policy.resize(4, 0.1)
    assert fill(policy, interactive=0, now=0.1) == [BATCH] * 2


def test_a_shrunken_pool_starts_nothing_until_it_fits():
    policy = worker(8, interactive=6)
    policy.resize(4, 0.1)
    assert policy.pick(1, 1, 0.1) is None
    for _ in range(3):
        policy.finish(INTERACTIVE, 0.2, 0.1)
    assert policy.pick(1, 1, 0.2) == INTERACTIVE


def test_an_end_that_was_never_started_frees_nothing():
    policy = worker()
    policy.finish(BATCH, 1.0, 0.1)
    policy.finish(INTERACTIVE, 1.0, 0.1)
    assert policy.running == 0


def test_the_view_tells_what_the_policy_does():
    policy = worker(interactive=2, batch=3)
    policy.observe(ONLY_BATCH, 0.5)
    view = policy.view(0.5)
    assert (view.slots, view.running_interactive, view.running_batch) == (8, 2, 3)
    assert (view.reserve, view.batch_ceiling, view.owed_ceiling) == (1, 8, 2)
    assert (view.mode, view.mode_cause, view.blind, view.fleet_workers) == (
        Mode.OPEN,
        None,
        False,
        1,
    )
    assert not any(view.mode_changes.values())
    assert view.last_batch_start == 0.0


def test_the_share_received_counts_the_time_in_which_both_wanted_slots():
    policy = worker(4, batch=1, interactive=3)
    policy.observe(BOTH_WAIT, 10.0)
    assert policy.view(10.0).share_received == pytest.approx(0.25)
    policy.observe(Load(0, 0), 20.0)
    assert policy.view(20.0).share_received == pytest.approx(0.25)


def test_batch_that_nobody_has_seen_has_received_no_part_not_even_none():
    policy = worker(4, interactive=3)
    policy.observe(Load(9, None), 10.0)
    assert policy.view(10.0).share_received is None
    policy.start(BATCH, 10.0)
    policy.observe(Load(9, None), 20.0)
    assert policy.view(20.0).share_received == pytest.approx(0.25), "seen, and not counted"
