"""Quantiles of waits, of which some had not ended."""

from __future__ import annotations

import pytest

from celery_fair.bench.waits import of_buckets, of_durations
from celery_fair.observe.counts import BOUNDS


def test_quantiles_are_of_the_nearest_rank():
    found = of_durations(range(1, 101))
    assert (found["p50"], found["p95"], found["p99"], found["max"]) == (50, 95, 99, 100)
    assert found["count"] == 100
    assert found["at_least"] == []


def test_one_wait_is_every_quantile():
    found = of_durations([0.25])
    assert {found[name] for name in ("p50", "p95", "p99", "max")} == {0.25}


def test_nothing_has_no_quantile():
    assert of_durations([]) == {
        "count": 0, "at_least": [], "p50": None, "p95": None, "p99": None, "max": None
    }  # fmt: skip


def test_those_that_still_wait_are_not_left_out():
    """Else a worker that runs none of them in time would have no waits, and look best."""
    found = of_durations([0.1], unended=[8.0, 9.0, 10.0])
    assert found["count"] == 4
    assert found["p50"] == 8.0
    assert found["max"] == 10.0
    assert found["at_least"] == ["p50", "p95", "p99", "max"]


def test_a_quantile_below_all_of_those_that_still_wait_is_exact():
    found = of_durations([1.0, 2.0, 3.0], unended=[5.0])
    assert found["p50"] == 2.0
    assert found["at_least"] == ["p95", "p99", "max"]


def test_a_quantile_above_one_that_still_waits_may_be_too_low():
    found = of_durations([1.0, 4.0, 4.0], unended=[2.0])
    assert found["p50"] == 2.0
    assert "p50" in found["at_least"]


def test_a_histogram_gives_the_same_figures_as_the_metrics_do():
    counts = [0] * (len(BOUNDS) + 1)
    counts[BOUNDS.index(0.5)] = 10
    found = of_buckets(counts)
    assert found["p50"] == pytest.approx(0.375)
    assert found["max"] == 0.5
    assert found["at_least"] == []


def test_the_last_bucket_has_only_a_lower_end():
    counts = [0] * (len(BOUNDS) + 1)
    counts[0], counts[-1] = 9, 1
    found = of_buckets(counts)
    assert found["max"] == BOUNDS[-1]
    assert found["at_least"] == ["p95", "p99", "max"]
