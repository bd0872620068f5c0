"""Waits of the last minutes, by kind."""

from __future__ import annotations

from celery_fair.observe.waits import KEPT, WINDOW_SECONDS, Waits
from celery_fair.policy.kinds import BATCH, INTERACTIVE


def test_quantiles_of_a_hundred_waits():
    waits = Waits()
    for number in range(100):
        waits.add(INTERACTIVE, 0.0, number / 100)
    assert waits.summary(INTERACTIVE, 1.0) == {
        "count": 100,
        "p50": 0.5,
        "p95": 0.95,
        "p99": 0.99,
        "max": 0.99,
    }


def test_a_kind_without_waits_has_no_quantiles():
    waits = Waits()
    waits.add(BATCH, 0.0, 1.0)
    assert waits.summary(INTERACTIVE, 1.0) == {
        "count": 0,
        "p50": None,
        "p95": None,
        "p99": None,
        "max": None,
    }


def test_a_single_wait_is_every_quantile():
    waits = Waits()
    waits.add(BATCH, 0.0, 2.0)
    assert set(waits.summary(BATCH, 1.0).values()) == {1, 2.0}


def test_what_is_older_than_the_window_is_left_out():
    waits = Waits()
    waits.add(BATCH, 0.0, 9.0)
    waits.add(BATCH, 2.0, 1.0)
    summary = waits.summary(BATCH, WINDOW_SECONDS + 1.0)
    assert (summary["count"], summary["max"]) == (1, 1.0)


def test_a_wait_that_a_skewed_clock_made_negative_counts_as_none_and_is_counted():
    waits = Waits()
    waits.add(BATCH, 0.0, -3600.0)
    assert waits.summary(BATCH, 0.0)["max"] == 0.0
    assert waits.clamped == 1


def test_memory_is_bounded():
    waits = Waits()
    for number in range(KEPT + 10):
        waits.add(BATCH, 0.0, float(number))
    assert waits.summary(BATCH, 0.0)["count"] == KEPT
