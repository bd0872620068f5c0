"""When a task starts: a band, from what was counted and from what slots and run times allow."""

from __future__ import annotations

import pytest

from celery_fair.policy.pace import Estimate, Pace, estimate, possible_rate


def test_slots_over_mean_run_times_is_what_is_possible():
    assert possible_rate([(4, 2.0), (2, 0.5)]) == 6.0


def test_who_has_seen_no_task_end_is_taken_for_one_like_the_others():
    assert possible_rate([(4, 1.0), (2, 3.0), (2, 0.0)]) == pytest.approx(4 + 2 / 3 + 1)


def test_where_nobody_knows_a_run_time_nothing_is_known():
    assert possible_rate([(4, 0.0)]) is None
    assert possible_rate([]) is None


def test_the_first_in_line_may_start_now_or_after_two_turns():
    """One start a second: 1 less and 1 more than the mean of 1."""
    assert estimate(0, [Pace(None, 2, 2.0)]) == Estimate(0.0, 2.0, 0, None, 1.0)


def test_the_band_reaches_from_the_faster_rate_to_the_slower():
    found = estimate(80, [Pace(2.0, 8, 2.0)])
    assert found == Estimate((81 - 9) / 4.0, (81 + 9) / 2.0, 80, 2.0, 4.0)


def test_workers_that_serve_the_line_together_add_up():
    found = estimate(8, [Pace(1.0, 4, 2.0), Pace(1.0, 4, 2.0)])
    assert (found.counted_rate, found.possible_rate) == (2.0, 4.0)
    assert (found.low_seconds, found.high_seconds) == (6 / 4, 12 / 2)


@pytest.mark.parametrize("paces", [[], [Pace(None, 4, 0.0)], [Pace(0.0, 0, 2.0)]])
def test_without_a_rate_there_is_no_estimate(paces):
    assert estimate(3, paces) is None
