"""How fast a resource is used after it has refused."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy.aimd import (
    INCREASE_PER_SECOND,
    LEAST,
    LONGEST_SECONDS,
    ONE_BURST_SECONDS,
    Pace,
)


def test_a_refusal_halves_the_rate_and_shuts_batch_out() -> None:
    pace = Pace().refused(100.0, None)
    assert (pace.rate, pace.is_shut(100.9), pace.is_shut(101.0)) == (0.5, True, False)


def test_refusals_of_one_burst_are_one() -> None:
    pace = Pace()
    for at in (100.0, 100.1, 100.2, 100.9):
        pace = pace.refused(at, None)
    assert (pace.rate, pace.strikes) == (0.5, 1)
    assert pace.refused(102.0, None).strikes == 2


def test_what_the_resource_says_counts_and_the_longest_of_a_burst() -> None:
    pace = Pace().refused(100.0, 20.0).refused(100.1, 5.0)
    assert pace.shut_until == 120.0


def test_without_a_word_batch_stays_out_twice_as_long_each_time() -> None:
    pace, shut = Pace(), []
    for at in (100.0, 110.0, 120.0, 130.0):
        pace = pace.refused(at, None)
        shut.append(pace.shut_until - at)
    assert shut == [1.0, 2.0, 4.0, 8.0]


def test_after_a_calm_minute_the_next_refusal_is_the_first_again() -> None:
    pace = Pace().refused(100.0, None).refused(110.0, None).refused(180.0, None)
    assert (pace.strikes, pace.shut_until) == (1, 181.0)


def test_the_rate_rises_from_when_batch_is_let_in_again_and_is_whole_after_a_minute() -> None:
    pace = Pace().refused(100.0, 20.0)
    assert pace.later(120.0).rate == 0.5
    assert pace.later(150.0).rate == 0.5 + 30.0 * INCREASE_PER_SECOND
    assert pace.later(180.0).rate == 1.0


def test_a_word_that_is_too_long_is_cut() -> None:
    assert Pace().refused(0.0, 1e9).shut_until == LONGEST_SECONDS
    assert Pace().refused(5.0, -3.0).shut_until == 5.0


refusals = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.none() | st.floats(-10.0, 1e7)), max_size=60
)


@given(refusals=refusals)
def test_it_stays_in_its_bounds_and_is_lowered_no_more_than_once_a_burst(
    refusals: list[tuple[float, float | None]],
) -> None:
    pace, now, cuts = Pace(), 0.0, [-1e9]
    for after, said in refusals:
        now += after
        before, pace = pace.later(now), pace.refused(now, said)
        if pace.rate < before.rate:
            cuts.append(now)
        assert LEAST <= pace.rate <= 1.0
        assert pace.shut_until <= max(before.shut_until, now + LONGEST_SECONDS)
    assert all(b - a >= ONE_BURST_SECONDS for a, b in itertools.pairwise(cuts))
