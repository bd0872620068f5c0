"""How fast a job is, and how long it will take: at a constant rate the band has the truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy.job_failures import too_many
from celery_fair.policy.job_pace import Pace, believable, bucket_of, lately, seconds_left


def test_the_pace_is_that_of_the_last_minute():
    pace = lately({0: 9_999, 10: 50, 11: 50, 16: 30}, started_at=0.0, now=165.0)
    assert pace == Pace(130, 65.0, False, pytest.approx(1.054, abs=0.001))
    assert pace.rate == 2.0


def test_a_young_job_is_measured_since_work_began():
    assert lately({10: 4}, started_at=101.0, now=103.0) == Pace(4, 2.0, True)
    assert lately({}, started_at=101.0, now=101.0) is None


def test_what_was_finished_before_a_job_stood_still_says_nothing():
    pace = lately({1: 500}, started_at=0.0, now=1_000.0)
    assert pace.rate == 0.0
    assert believable(pace, Pace(500, 1_000.0, True), in_flight=0) is pace
    assert seconds_left(10, 0, pace) is None


def test_chunks_that_take_longer_than_a_minute_are_measured_since_work_began():
    whole = Pace(12, 1_200.0, True)
    assert believable(lately({100: 1}, 0.0, 1_065.0), whole, in_flight=2) is whole


def test_a_rate_that_jumps_makes_the_band_wider():
    steady = lately(dict.fromkeys(range(1, 7), 60), 0.0, 75.0)
    jumping = lately({1: 0, 2: 120, 3: 0, 4: 120, 5: 0, 6: 120}, 0.0, 75.0)
    narrow, wide = seconds_left(600, 1, steady), seconds_left(600, 1, jumping)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@given(
    slots=st.integers(1, 16),
    chunk=st.integers(1, 500),
    seconds=st.floats(0.05, 20.0),
    started_at=st.floats(0.0, 100.0),
    elapsed=st.floats(0.01, 400.0),
    more=st.integers(0, 10_000),
)
def test_a_band_has_the_truth_where_the_rate_is_constant(
    slots, chunk, seconds, started_at, elapsed, more
):
    """``slots`` chunks of ``chunk`` items each run side by side, a little apart."""
    counts: dict[int, int] = {}
    finished, now = 0, started_at + elapsed
    for slot in range(slots):
        for turn in range(1, int(elapsed / seconds) + 2):
            at = started_at + (turn + slot / slots) * seconds
            if at <= now:
                counts[bucket_of(at)] = counts.get(bucket_of(at), 0) + chunk
                finished += chunk
    in_flight = slots * chunk
    left = in_flight + more
    whole = Pace(finished, elapsed, True)
    band = seconds_left(
        left, in_flight, believable(lately(counts, started_at, now), whole, in_flight)
    )
    if not finished:
        assert band is None
        return
    low, high = band
    rate = slots * chunk / seconds
    assert low <= left / rate * 1.000001
    assert high >= more / rate * 0.999999


def test_a_job_bears_a_number_of_failures_or_a_part_of_what_is_finished():
    assert not too_many(5, 5, None, None)
    assert too_many(1, 1, None, 0)
    assert not too_many(3, 3, None, 3)
    assert too_many(4, 9, None, 3)
    assert not too_many(10, 1_000, None, 0.01)
    assert too_many(11, 1_000, None, 0.01)


def test_a_part_is_not_judged_by_the_first_failure():
    assert not too_many(1, 1, None, 0.1)
    assert too_many(11, 11, None, 0.1)
    assert too_many(3, 3, total=20, max_failures=0.1)
