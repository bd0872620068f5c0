"""How many slots stay free for the next interactive tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from celery_fair.policy import PolicySettings
from celery_fair.policy.reserve import Reserve, Traffic, poisson_quantile

LLM = Traffic(
    slots=8,
    interactive_rate=0.8,
    interactive_seconds=3.0,
    batch_seconds=10.0,
    batch_running=4,
    batch_finished=8,
)
QUIET = replace(LLM, interactive_rate=0.0)


def auto(**settings):
    return Reserve(PolicySettings(**settings), now=0.0)


def test_the_quantile_is_the_smallest_number_exceeded_rarely_enough():
    assert poisson_quantile(0.0, 0.05, 9) == 0
    assert poisson_quantile(0.05, 0.05, 9) == 0  # P(N > 0) = 0.0488
    assert poisson_quantile(0.06, 0.05, 9) == 1
    assert poisson_quantile(1.4, 0.05, 9) == 4  # P(N > 3) = 0.054
    assert poisson_quantile(1.3, 0.05, 9) == 3  # P(N > 3) = 0.043
    assert poisson_quantile(50.0, 0.05, 4) == 4


def test_a_number_is_taken_as_it_is_or_as_much_as_the_guarantee_leaves():
    reserve = Reserve(PolicySettings(reserve=7), now=0.0)
    assert reserve.update(replace(LLM, slots=20), 1.0) == 7
    assert reserve.update(LLM, 2.0) == 6


def test_auto_covers_the_arrivals_until_there_is_headroom():
    # min(3, 10 / 4) less the accepted 0.75 s is 1.75 s: 1.4 arrivals on average.
    assert auto().update(LLM, 1.0) == 4
    assert auto().update(replace(LLM, interactive_rate=0.4), 1.0) == 2


def test_the_accepted_wait_and_the_target_move_it():
    assert auto(reserve_wait_seconds=2.0).update(LLM, 1.0) == 2  # 0.4 arrivals
    assert auto(reserve_target=0.5).update(LLM, 1.0) == 1


def test_after_a_start_half_of_the_slots_are_kept():
    reserve = auto()
    cold = replace(QUIET, batch_finished=7)
    assert reserve.update(cold, 1.0) == 4
    assert reserve.update(cold, 59.0) == 4


def test_the_cold_start_ends_at_once_when_enough_batch_has_finished():
    reserve = auto()
    reserve.update(replace(QUIET, batch_finished=7), 1.0)
    assert reserve.update(QUIET, 2.0) == 1


def test_the_cold_start_ends_a_minute_after_batch_began():
    reserve = auto()
    reserve.update(replace(QUIET, batch_running=0, batch_finished=0), 500.0)
    cold = replace(QUIET, batch_finished=0)
    assert reserve.update(cold, 1000.0) == 4
    assert reserve.update(cold, 1059.0) == 4
    assert reserve.update(cold, 1060.0) == 1


def test_it_rises_at_once():
    reserve = auto()
    assert reserve.update(QUIET, 1.0) == 1
    assert reserve.update(LLM, 1.1) == 4


def test_it_falls_one_slot_for_each_batch_task_time_in_which_it_was_not_needed():
    reserve = auto()
    quick = replace(QUIET, interactive_seconds=0.01)
    reserve.update(LLM, 0.0)
    assert reserve.update(quick, 9.9) == 4
    assert reserve.update(quick, 10.0) == 3
    assert reserve.update(quick, 19.9) == 3
    assert reserve.update(quick, 20.0) == 2


def test_need_in_between_puts_the_fall_off():
    reserve = auto()
    quick = replace(QUIET, interactive_seconds=0.01)
    reserve.update(LLM, 0.0)
    reserve.update(LLM, 9.0)
    assert reserve.update(quick, 12.0) == 4
    assert reserve.update(quick, 19.0) == 3


def test_short_batch_lets_it_fall_every_five_seconds():
    reserve = auto()
    reserve.update(LLM, 0.0)
    short = replace(QUIET, batch_seconds=1.0)
    assert reserve.update(short, 4.9) == 4
    assert reserve.update(short, 5.0) == 3


def test_the_highest_rate_is_remembered_over_ten_batch_tasks():
    reserve = auto()
    reserve.update(LLM, 0.0)
    for second in range(10, 60, 10):
        assert reserve.update(QUIET, second) >= 3
    for second in range(60, 1000, 10):
        reserve.update(QUIET, second)
    assert reserve.value == 1


@pytest.mark.parametrize(("slots", "most"), [(1, 0), (2, 1), (3, 1), (8, 4), (9, 4)])
def test_it_never_takes_more_than_half(slots, most):
    assert auto().update(replace(LLM, slots=slots, interactive_rate=99.0), 1.0) == most


def test_the_minimum_is_kept():
    assert auto(reserve_min=2).update(QUIET, 1.0) == 2
    assert auto(reserve_min=0).update(QUIET, 1.0) == 0


def test_tiny_batch_needs_no_minimum():
    assert auto().update(replace(QUIET, batch_seconds=0.05), 1.0) == 0
    assert auto().update(replace(QUIET, batch_seconds=0.051), 1.0) == 1


def test_young_batch_is_not_taken_to_be_tiny():
    young = replace(QUIET, batch_seconds=0.01, batch_finished=0)
    reserve = auto(reserve_min=2)
    reserve.update(young, 0.0)
    assert reserve.update(young, 60.0) == 2


def test_unknown_batch_is_taken_to_be_long():
    assert auto().update(replace(LLM, batch_seconds=0.0), 1.0) == 4


def test_a_pool_that_shrinks_takes_the_reserve_along():
    reserve = auto()
    reserve.update(LLM, 0.0)
    assert reserve.update(replace(LLM, slots=4), 0.1) == 2


def test_usual_interactive_tasks_keep_their_slots_beyond_the_reserve():
    reserve = auto()
    short = replace(LLM, interactive_seconds=0.05, interactive_rate=80.0)
    for tick in range(400):
        reserve.see_running(4, 10.0, tick * 0.25)
    assert reserve.update(short, 100.0) == 1
    assert reserve.usual(short) == 5  # 4 tasks on 4 slots would never catch up: 1.15 * 4 + 0.5


def test_what_the_reserve_covers_is_not_kept_twice():
    reserve = auto()
    for tick in range(400):
        reserve.see_running(2, 10.0, tick * 0.25)
    assert reserve.update(LLM, 100.0) == 4
    assert reserve.usual(LLM) == 0


def test_a_number_means_that_number_and_no_more():
    reserve = Reserve(PolicySettings(reserve=1), now=0.0)
    reserve.see_running(4, 10.0, 1000.0)
    assert reserve.usual(LLM) == 0
