"""The first guess: Erlang C, and what is made of it for other run times than exponential ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.advise.erlang import Stream, mean_wait, quantile_wait, slots_for, waits


def erlang_c(slots: int, load: float) -> float:
    """As the textbooks write it, with factorials."""
    last = load**slots / math.factorial(slots) * slots / (slots - load)
    return last / (sum(load**n / math.factorial(n) for n in range(slots)) + last)


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_chance_to_wait_is_that_of_the_textbook(slots, part):
    assert waits(slots, part * slots) == pytest.approx(erlang_c(slots, part * slots), rel=1e-6)


def test_one_slot_is_m_m_1_and_constant_run_times_wait_half_as_long():
    assert mean_wait(1, Stream(0.5, 1.0)) == pytest.approx(1.0)  # rho / (1 - rho)
    assert mean_wait(1, Stream(0.5, 1.0, run_variation=0.0)) == pytest.approx(0.5)
    assert mean_wait(1, Stream(1.0, 1.0)) == math.inf
    assert mean_wait(1, Stream(0.0, 1.0)) == 0.0


@given(st.floats(0.1, 50), st.floats(0.01, 5), st.floats(0, 20), st.floats(0.5, 0.99))
def test_the_fewest_slots_are_enough_and_one_less_is_not(rate, mean, variation, quantile):
    stream = Stream(rate, mean, variation)
    slots = slots_for(stream, quantile, 0.5)
    assert quantile_wait(slots, stream, quantile) < 0.5
    fewer = slots - 1
    assert fewer <= stream.slots or quantile_wait(fewer, stream, quantile) >= 0.5
