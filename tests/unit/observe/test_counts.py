"""What is counted of a worker: buckets, and names of tasks that can't grow without bound."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.observe.counts import BOUNDS, OTHERS, TASKS, Counts, Histogram
from celery_fair.policy.kinds import BATCH, INTERACTIVE


def end(outcome, wait_seconds, run_seconds):
    return SimpleNamespace(
        outcome=outcome, wait_seconds=wait_seconds, started_at=5.0, finished_at=5.0 + run_seconds
    )


def counts():
    return Counts(("succeeded", "failed"), ("revoked",))


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [(0.0, 0), (0.001, 0), (0.0011, 1), (1.0, 9), (14400.0, len(BOUNDS) - 1), (1e6, len(BOUNDS))],
)
def test_a_bound_belongs_to_its_bucket_as_prometheus_has_it(seconds, bucket):
    histogram = Histogram()
    histogram.add([seconds])
    assert histogram.buckets.index(1) == bucket
    assert histogram.report() == {"buckets": histogram.buckets, "sum": seconds}


@given(st.lists(st.sampled_from([*BOUNDS, 0.0, 0.3, 1e6]) | st.floats(0, 1e5), max_size=50))
def test_many_at_once_are_counted_as_one_by_one(durations):
    together, single = Histogram(), Histogram()
    together.add(list(durations))
    for seconds in durations:
        single.add([seconds])
    assert together.buckets == single.buckets
    assert sum(together.buckets) == len(durations)
    assert together.sum_seconds == pytest.approx(single.sum_seconds)


def test_the_bounds_go_from_a_millisecond_to_hours():
    assert BOUNDS[0] == 0.001
    assert BOUNDS[-1] >= 4 * 3600
    assert list(BOUNDS) == sorted(set(BOUNDS))


def test_an_end_is_counted_by_kind_and_by_task():
    counted = counts()
    counted.end(BATCH, "shop.report", [end("succeeded", 2.0, 0.5), end("failed", 1.0, 0.25)])
    assert counted.finished == {
        BATCH: {"succeeded": 1, "failed": 1},
        INTERACTIVE: {"succeeded": 0, "failed": 0},
    }
    assert counted.runs[BATCH].sum_seconds == 0.75
    report = counted.tasks[BATCH]["shop.report"]
    assert (report.outcomes, report.waits, report.wait_seconds, report.run_seconds) == (
        {"succeeded": 1, "failed": 1},
        2,
        3.0,
        0.75,
    )


def test_a_wait_that_nobody_knows_is_not_one_of_zero():
    counted = counts()
    counted.end(BATCH, "shop.report", [end("succeeded", 10.0, 0.5), end("succeeded", None, 0.5)])
    report = counted.tasks[BATCH]["shop.report"]
    assert (report.waits, report.wait_seconds, report.run_seconds) == (1, 10.0, 1.0)


def test_beyond_so_many_names_the_others_are_counted_together():
    counted = counts()
    for number in range(TASKS + 50):
        counted.end(BATCH, f"task{number}", [end("succeeded", 0.0, 1.0)])
    assert len(counted.tasks[BATCH]) == TASKS + 1
    assert counted.tasks[BATCH][OTHERS].outcomes == {"succeeded": 50}
    assert counted.finished[BATCH]["succeeded"] == TASKS + 50
