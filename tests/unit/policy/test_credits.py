"""How many messages each lane may hold."""

from __future__ import annotations

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, Credits, Load, Policy, PolicySettings

BOTH_WAIT = Load(5, 5)


def worker(
    slots=8, *, reserve=1, interactive=0, batch=0, run=(1.0, 1.0), load=BOTH_WAIT, **settings
):
    """So many tasks run at now = 0; run times of both kinds are known."""
    policy = Policy(PolicySettings(reserve=reserve, **settings), slots=slots, now=-10.0)
    for kind, seconds in zip((INTERACTIVE, BATCH), run, strict=True):
        policy.start(kind, -10.0)
        policy.finish(kind, -9.0, seconds)
    for kind, count in ((INTERACTIVE, interactive), (BATCH, batch)):
        for _ in range(count):
            policy.start(kind, -0.1)
    policy.observe(load, 0.0)
    return policy


def test_an_idle_worker_asks_for_what_its_slots_may_take():
    assert worker().credits(0.0) == Credits(interactive=8, batch=7)


def test_running_tasks_take_their_places():
    assert worker(interactive=2, batch=3).credits(0.0) == Credits(interactive=3, batch=2)


def test_a_busy_worker_holds_nothing():
    assert worker(interactive=1, batch=7).credits(0.0) == Credits(0, 0)


def test_a_busy_worker_of_one_slot_holds_nothing_even_for_tasks_of_a_tenth_of_a_second():
    policy = worker(1, reserve=0, batch=1, run=(0.1, 0.1))
    assert policy.credits(0.0) == Credits(0, 0)


def test_the_lookahead_is_what_frees_within_it_rounded_down():
    # 6 / 0.1 + 2 / 1 slots a second, times 0.05 s: 3.1
    policy = worker(interactive=6, batch=2, run=(0.1, 1.0))
    assert policy.credits(0.0).interactive == 3


def test_tiny_tasks_are_held_up_to_the_cap():
    policy = worker(2, reserve=0, interactive=2, run=(0.001, 0.001))
    assert policy.credits(0.0).interactive == 8
    policy = worker(2, reserve=0, interactive=2, run=(0.001, 0.001), prefetch_multiplier=0)
    assert policy.credits(0.0).interactive == 100


def test_the_window_of_tiny_tasks_does_not_flap_with_every_task():
    policy = worker(2, reserve=0, interactive=1, run=(0.001, 0.001))
    assert policy.credits(0.0).interactive == 1 + 8


def test_a_stuck_task_frees_nothing():
    load = Load(5, 5, interactive_oldest_run_seconds=9.0)
    policy = worker(interactive=8, run=(0.1, 1.0), load=load)
    assert policy.credits(0.0).interactive == 3  # seven that take 0.1 s: 3.5


def test_batch_is_held_ahead_only_while_open_and_where_it_may_go_on():
    assert worker(batch=7, run=(1.0, 0.1)).credits(0.0).batch == 3
    assert worker(interactive=1, batch=7, run=(1.0, 0.1)).credits(0.0).batch == 0
    protected = worker(interactive=5, batch=2, run=(1.0, 0.1), load=Load(500, 5))
    assert protected.credits(0.0).batch == 0


def test_protected_batch_may_hold_what_its_share_leaves():
    policy = worker(load=Load(500, 5))
    assert policy.credits(0.0).batch == 2


def test_owed_batch_may_hold_a_message_though_every_slot_is_taken():
    policy = worker(interactive=8)
    assert policy.credits(0.0).batch == 1  # 1 s of debt is less than a second away
    assert worker(interactive=8, load=Load(5, 0)).credits(0.0).batch == 0


def test_a_message_is_not_held_long_before_it_is_owed():
    policy = worker(interactive=8, run=(1.0, 16.0))
    assert policy.credits(0.0).batch == 0
    assert policy.credits(8.9).batch == 0
    assert policy.credits(9.1).batch == 1  # owed from 16 / 1.6 = 10 s on


def test_an_unknown_batch_backlog_is_as_good_as_one():
    policy = worker(interactive=8, load=Load(5, None))
    assert policy.credits(0.0).batch == 1


def test_batch_at_its_guarantee_holds_no_more_unless_it_is_owed_and_soon_ends():
    for seconds, held in ((4.0, 1), (30.0, 0)):
        policy = worker(10, interactive=10, run=(1.0, seconds))
        policy.observe(BOTH_WAIT, 20.0)
        for _ in range(2):  # 0.2 of ten slots: with two running the debt stands still
            policy.finish(INTERACTIVE, 20.0, 1.0)
            policy.start(BATCH, 20.0)
        assert policy.view(20.0).batch_owed
        assert policy.credits(20.0).batch == held
    assert worker(interactive=6, batch=2).credits(9.0).batch == 0  # not owed


def test_tiny_owed_batch_is_held_in_number():
    policy = worker(1, reserve=0, interactive=1, run=(3.0, 0.001))
    policy.observe(BOTH_WAIT, 1.0)
    assert policy.credits(1.0).batch == 50


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_a_lane_that_is_not_served_gets_nothing(kind):
    policy = Policy(PolicySettings(reserve=1), slots=4, now=0.0, serves=[kind])
    policy.start(kind, 0.0)
    policy.finish(kind, 0.1, 0.001)
    policy.start(kind, 0.1)
    policy.observe(BOTH_WAIT, 1.0)
    credits = policy.credits(1.0)
    assert (credits.interactive > 0, credits.batch > 0) == (kind == INTERACTIVE, kind == BATCH)


def test_interactive_at_its_hard_ceiling_asks_for_no_more():
    assert worker(interactive=3, interactive_max_slots=3).credits(0.0).interactive == 0
    assert worker(interactive=2, interactive_max_slots=3).credits(0.0).interactive == 1


def test_batch_at_its_hard_ceiling_asks_for_no_more():
    assert worker(batch=3, batch_max_slots=3).credits(0.0).batch == 0
    assert worker(batch=2, batch_max_slots=3).credits(0.0).batch == 1


def test_unchanged_credits_are_the_same_object():
    policy = worker(interactive=2)
    assert policy.credits(0.0) is policy.credits(0.01)
