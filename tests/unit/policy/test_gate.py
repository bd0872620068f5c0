"""When the gate protects interactive tasks, and when it opens again."""

from __future__ import annotations

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, FleetView, Load, Mode, Policy, PolicySettings
from celery_fair.policy.gate import Cause

EMPTY = Load(0, 5, interactive_lane_empty=True)
BLIND_FULL = Load(None, None)
BLIND_EMPTY = Load(None, None, interactive_lane_empty=True)


@pytest.fixture
def policy():
    """Four slots, all of them taken: backlogs up to max(10, 8) are fine."""
    policy = Policy(PolicySettings(reserve=1), slots=4, now=0.0)
    for kind in (INTERACTIVE, INTERACTIVE, BATCH, BATCH):
        policy.start(kind, 0.0)
    return policy


def test_a_backlog_over_the_threshold_protects(policy):
    assert policy.observe(Load(10, 5), 0.1) is None
    assert policy.observe(Load(11, 5), 0.2) is Mode.PROTECTED
    assert policy.mode is Mode.PROTECTED


def test_free_slots_are_taken_off_the_backlog(policy):
    policy.finish(BATCH, 0.1, 0.1)
    assert policy.observe(Load(11, 5), 0.1) is None
    assert policy.observe(Load(12, 5), 0.2) is Mode.PROTECTED


def test_what_waits_for_its_rate_protects_nobody(policy):
    """It could use no slot, and may wait for minutes."""
    limited = Load(2, 5, interactive_limited=2)
    assert not limited.interactive_waits
    for tick in range(1, 20):
        assert policy.observe(limited, tick / 10) is None
    assert policy.observe(Load(3, 5, interactive_limited=2), 2.0) is None
    assert policy.observe(Load(3, 5, interactive_limited=2), 2.4) is Mode.PROTECTED


def test_the_threshold_grows_with_the_slots():
    policy = Policy(PolicySettings(), slots=20, now=0.0)
    for _ in range(20):
        policy.start(INTERACTIVE, 0.0)
    assert policy.observe(Load(40, 5), 0.1) is None
    assert policy.observe(Load(41, 5), 0.2) is Mode.PROTECTED


def test_the_threshold_is_the_fleets(policy):
    policy.see_fleet(FleetView(5, 20, 0, 10, 10), 0.0)
    assert policy.observe(Load(40, 5), 0.1) is None
    assert policy.observe(Load(41, 5), 0.2) is Mode.PROTECTED


def test_a_long_wait_here_protects(policy):
    assert policy.observe(Load(1, 5, interactive_oldest_wait_seconds=0.3), 0.1) is None
    assert policy.observe(Load(1, 5, interactive_oldest_wait_seconds=0.31), 0.2) is Mode.PROTECTED


def test_a_long_wait_at_the_broker_since_slots_ran_out_protects(policy):
    policy.observe(EMPTY, 0.5)
    assert policy.observe(Load(1, 5), 1.0) is None
    assert policy.observe(Load(1, 5), 1.29) is None
    assert policy.observe(Load(1, 5), 1.31) is Mode.PROTECTED


def test_a_backlog_that_fits_the_free_slots_is_no_wait(policy):
    policy.finish(BATCH, 0.5, 0.5)
    for tick in range(1, 10):
        assert policy.observe(Load(1, 5), tick * 0.5) is None


def test_a_late_start_within_the_last_second_protects(policy):
    policy.finish(BATCH, 0.9, 0.9)
    policy.start(INTERACTIVE, 1.0, waited_seconds=0.31)
    assert policy.observe(EMPTY, 2.0) is Mode.PROTECTED


def test_a_late_start_is_forgotten_after_a_second(policy):
    policy.start(INTERACTIVE, 1.0, waited_seconds=0.31)
    assert policy.observe(EMPTY, 2.01) is None


def test_a_start_in_time_protects_nothing(policy):
    policy.start(INTERACTIVE, 1.0, waited_seconds=0.3)
    assert policy.observe(EMPTY, 1.1) is None


def test_one_late_start_protects_once(policy):
    policy.start(INTERACTIVE, 1.0, waited_seconds=5.0)
    modes = [policy.observe(EMPTY, 1.0 + tick * 0.1) for tick in range(1, 20)]
    assert [mode for mode in modes if mode] == [Mode.PROTECTED, Mode.OPEN]


def test_it_opens_when_nothing_waits_but_not_before_the_hold(policy):
    policy.observe(Load(50, 5), 1.0)
    assert policy.observe(EMPTY, 1.24) is None
    assert policy.observe(EMPTY, 1.25) is Mode.OPEN


def test_it_opens_only_when_both_signals_are_under_half(policy):
    policy.observe(Load(50, 5), 1.0)
    for _ in range(2):
        policy.finish(INTERACTIVE, 1.5, 0.5)
    assert policy.observe(Load(7, 5), 2.0) is None  # 7 - 2 free is not under 5
    assert policy.observe(Load(2, 5, interactive_oldest_wait_seconds=0.15), 2.1) is None
    assert policy.observe(Load(2, 5, interactive_oldest_wait_seconds=0.14), 2.2) is Mode.OPEN


def test_a_backlog_over_half_of_the_threshold_keeps_it_protected(policy):
    policy.observe(Load(50, 5), 1.0)
    for _ in range(2):
        policy.finish(INTERACTIVE, 1.5, 0.5)
    assert policy.observe(Load(2, 5, interactive_oldest_wait_seconds=0.2), 2.0) is None
    assert policy.observe(Load(7, 5), 2.1) is None  # 7 - 2 free is not under 5
    assert policy.observe(Load(6, 5), 2.2) is Mode.OPEN


def test_a_half_late_start_keeps_it_protected_for_a_second(policy):
    policy.observe(Load(50, 5), 1.0)
    policy.finish(BATCH, 1.9, 0.5)
    policy.start(INTERACTIVE, 2.0, waited_seconds=0.2)
    policy.finish(BATCH, 2.0, 0.5)
    policy.finish(INTERACTIVE, 2.0, 0.5)
    assert policy.observe(Load(1, 5), 3.0) is None
    assert policy.observe(Load(1, 5), 3.01) is Mode.OPEN


def test_between_the_thresholds_the_mode_stays(policy):
    policy.observe(Load(50, 5), 1.0)
    assert policy.observe(Load(9, 5), 2.0) is None
    assert policy.mode is Mode.PROTECTED


def test_blind_with_a_full_lane_is_protected_at_the_second_tick(policy):
    assert policy.observe(BLIND_FULL, 0.1) is None
    assert policy.observe(BLIND_FULL, 0.2) is Mode.PROTECTED
    assert policy.view(0.2).blind


def test_blind_where_only_batch_runs_says_nothing():
    policy = Policy(PolicySettings(reserve=0), slots=1, now=0.0)
    policy.start(BATCH, 0.0)
    for tick in range(1, 10):
        assert policy.observe(BLIND_FULL, tick * 0.25) is None
    held = Load(None, None, interactive_oldest_wait_seconds=0.1)
    assert policy.observe(held, 3.0) is None
    assert policy.observe(held, 3.1) is Mode.PROTECTED


def test_blind_with_an_empty_lane_stays_open(policy):
    for tick in range(1, 10):
        assert policy.observe(BLIND_EMPTY, tick * 0.25) is None
    assert not policy.view(3.0).blind


def test_blind_protection_ends_when_the_lane_comes_up_empty(policy):
    policy.observe(BLIND_FULL, 0.1)
    policy.observe(BLIND_FULL, 0.2)
    assert policy.observe(BLIND_EMPTY, 0.5) is Mode.OPEN


def test_every_change_has_a_reason_and_is_counted(policy):
    policy.observe(Load(50, 5), 1.0)
    assert policy.view(1.0).mode_reason == "interactive backlog beyond free slots 50 > 10"
    policy.observe(EMPTY, 2.0)
    view = policy.view(2.0)
    assert (view.mode_reason, view.mode_since) == ("nothing interactive waits", 2.0)
    assert {change: n for change, n in view.mode_changes.items() if n} == {
        (Mode.PROTECTED, Cause.BACKLOG): 1,
        (Mode.OPEN, Cause.EMPTY): 1,
    }


def test_with_one_kind_left_there_is_nobody_to_protect(policy):
    policy.observe(Load(50, 5), 1.0)
    assert policy.serve([BATCH], 2.0) is Mode.OPEN
    view = policy.view(10.0)
    assert (view.mode, view.mode_cause, view.mode_reason, view.mode_since) == (
        Mode.OPEN,
        Cause.ALONE,
        "serves batch only",
        2.0,
    )
    assert view.mode_seconds == {Mode.OPEN: 9.0, Mode.PROTECTED: 1.0}
    assert policy.serve([BATCH, INTERACTIVE], 11.0) is None


def test_the_seconds_in_each_mode_add_up_to_the_time_there_was(policy):
    policy.observe(Load(50, 5), 1.0)
    assert policy.view(1.5).mode_seconds == {Mode.OPEN: 1.0, Mode.PROTECTED: 0.5}
    policy.observe(EMPTY, 3.0)
    assert policy.view(7.0).mode_seconds == {Mode.OPEN: 5.0, Mode.PROTECTED: 2.0}
