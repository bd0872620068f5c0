"""What batch is owed."""

from __future__ import annotations

import math

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, Load, Policy, PolicySettings
from celery_fair.policy.share import Share

BATCH_WAITS = Load(5, 5)
IDLE = Load(0, 0, interactive_lane_empty=True, batch_lane_empty=True)


def policy_with(slots=8, batch_seconds=2.0, **settings):
    """A worker that knows how long batch takes, and was at rest until now = 0."""
    policy = Policy(PolicySettings(reserve=1, **settings), slots=slots, now=-100.0)
    policy.start(BATCH, -99.0)
    policy.finish(BATCH, -99.0 + batch_seconds, batch_seconds)
    policy.observe(IDLE, -50.0)
    policy.observe(BATCH_WAITS, 0.0)
    return policy


def debt(policy, now):
    return policy.view(now).debt_seconds


def test_debt_grows_by_the_share_of_all_slots_while_batch_waits():
    policy = policy_with()
    assert debt(policy, 1.0) == pytest.approx(1.6)


def test_running_batch_pays_the_debt():
    policy = policy_with()
    for _ in range(3):
        policy.start(BATCH, 1.0)
    assert debt(policy, 2.0) == pytest.approx(1.6 + (1.6 - 3))


def test_batch_is_owed_when_the_debt_covers_one_task():
    policy = policy_with()
    assert not policy.view(1.24).batch_owed
    assert policy.view(1.26).batch_owed  # 2 s / 1.6


def test_a_batch_task_that_runs_longer_than_the_mean_counts_with_its_age():
    policy = policy_with()
    policy.observe(Load(5, 5, batch_oldest_run_seconds=8.0), 0.0)
    assert not policy.view(4.9).batch_owed
    assert policy.view(5.1).batch_owed  # 8 s / 1.6


def test_debt_is_bounded_below_by_one_task():
    policy = policy_with()
    for _ in range(7):
        policy.start(BATCH, 0.0)
    policy.observe(BATCH_WAITS, 60.0)
    assert debt(policy, 60.0) == pytest.approx(-2.0)


def test_debt_is_bounded_above():
    policy = policy_with()
    policy.observe(BATCH_WAITS, 1000.0)
    assert debt(policy, 1000.0) == pytest.approx(2 * 8 * 2.0)


def test_debt_decays_while_no_batch_waits():
    policy = policy_with()
    policy.observe(IDLE, 1.0)
    policy.observe(IDLE, 6.0)
    assert debt(policy, 6.0) == pytest.approx(1.6 * math.exp(-1))


def test_an_unknown_backlog_counts_as_waiting_unless_the_lane_is_empty():
    policy = policy_with()
    policy.observe(Load(None, None), 0.0)
    assert debt(policy, 1.0) == pytest.approx(1.6)
    policy.observe(Load(None, None, batch_lane_empty=True), 1.0)
    assert debt(policy, 2.0) <= 1.6


def test_interactive_tasks_that_never_wait_do_not_stop_the_debt():
    policy = policy_with()
    for _ in range(7):
        policy.start(INTERACTIVE, 0.0)
    policy.observe(Load(0, 5), 0.0)
    assert debt(policy, 1.0) == pytest.approx(1.6)


def test_in_tasks_a_share_of_a_sixth_is_five_to_one():
    policy = Policy(
        PolicySettings(reserve=0, batch_share=1 / 6, share_unit="tasks"), slots=1, now=0.0
    )
    policy.observe(BATCH_WAITS, 0.0)
    started = []
    for turn in range(18):
        kind = policy.pick(9, 9, turn * 1.0)
        policy.start(kind, turn * 1.0)
        policy.finish(kind, turn + 0.9, 0.9)
        started.append(kind[0])
    assert "".join(started) == "iiiiib" * 3


def test_in_tasks_a_start_may_count_for_more():
    share = Share(0.25, 1, 0.0, in_tasks=True)
    share.waits = True
    share.turn(3.0, batch=False, now=0.0)
    assert share.debt == pytest.approx(0.75)
    share.turn(1.0, batch=True, now=0.0)
    assert share.debt == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("wait", "share"), [(0.0, 0.2), (60.0, 0.2), (90.0, 0.3), (120.0, 0.4), (9000.0, 0.4)]
)
def test_aging_lifts_the_share_in_bounds(wait, share):
    policy = policy_with(batch_max_wait_seconds=60.0)
    policy.observe(Load(5, 5, batch_oldest_wait_seconds=wait), 1.0)
    assert policy.view(1.0).share == pytest.approx(share)


def test_aging_reaches_the_configured_share_and_never_lowers_it():
    settings = PolicySettings(batch_share=0.3, batch_max_wait_seconds=10.0)
    assert settings.share_at(100.0) == 0.5
    assert PolicySettings(aged_share=0.25, batch_max_wait_seconds=10.0).share_at(100) == 0.25
    assert PolicySettings(aged_share=0.1, batch_max_wait_seconds=10.0).share_at(100) == 0.2


def test_without_a_limit_nothing_ages():
    assert PolicySettings().share_at(1e9) == 0.2


def test_an_aged_share_guarantees_more_slots():
    policy = policy_with(batch_max_wait_seconds=10.0)
    policy.observe(Load(5, 5, batch_oldest_wait_seconds=99.0), 1.0)
    assert policy.view(1.0).owed_ceiling == 4


def test_a_share_that_divides_the_slots_is_not_rounded_up():
    assert PolicySettings(batch_share=0.2).guaranteed(5) == 1
    assert PolicySettings(batch_share=0.1).guaranteed(30) == 3


def test_impossible_settings_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"expected reserve to be at most 6, got: 7"):
        PolicySettings(reserve=7).check(8)
    with pytest.raises(ValueError, match=r"expected batch_max_slots to be at least 2, got: 1"):
        PolicySettings(batch_max_slots=1).check(8)
    PolicySettings(reserve=6, batch_max_slots=2).check(8)


def test_impossible_settings_are_clamped_when_the_pool_shrinks():
    policy = Policy(PolicySettings(reserve=6), slots=8, now=0.0)
    policy.resize(3, 1.0)
    assert policy.reserve == 2
    policy.resize(1, 2.0)
    assert policy.reserve == 0
