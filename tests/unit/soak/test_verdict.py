"""The verdict on a soak: a leak is seen, and noise is not taken for one."""

from __future__ import annotations

import random
from math import exp
from types import SimpleNamespace

import pytest

from tests.soak import verdict
from tests.soak.verdict import Series, slope

MINUTES = 20
EVERY_SECONDS = 5.0
AT_START_KB = 70_000.0
TASKS_PER_MINUTE = 600.0


def series(per_minute=0.0, noise=0.0, seed=0, shape=lambda minute: 0.0):
    """A main process's RSS in kB: a trend, pages that come and go, and a shape."""
    draw = random.Random(seed)
    times = [number * EVERY_SECONDS for number in range(int(MINUTES * 60 / EVERY_SECONDS))]
    values = [
        AT_START_KB + per_minute * at / 60 + shape(at / 60) + draw.uniform(-noise, noise)
        for at in times
    ]
    return Series(times, values)


def judge(ours, stock):
    return verdict.judge_memory("memory", ours, stock, TASKS_PER_MINUTE)


def wandering(seed, step=24.0):
    """Neighbours are alike, as in a real RSS: a walk that is drawn back to where it began."""
    draw, at, walk = random.Random(seed), 0.0, {}
    for number in range(MINUTES * 60):
        at += draw.gauss(0, step) - 0.05 * at
        walk[number] = at
    return lambda minute: walk[int(minute * 60)]


# memory


def test_a_flat_series_passes_however_noisy():
    assert judge(series(noise=800, seed=1), series(noise=800, seed=2)).passed


@pytest.mark.parametrize("seed", range(5))
def test_a_series_that_wanders_passes(seed):
    finding = judge(series(shape=wandering(seed)), series(shape=wandering(seed + 100)))
    assert finding.passed, finding.text


@pytest.mark.parametrize("seed", range(5))
def test_a_leak_fails_though_it_is_smaller_than_the_noise(seed):
    """200 kB a minute at ten tasks a second: a third of a kB a task."""
    ours = series(per_minute=200, noise=300, seed=seed, shape=wandering(seed))
    finding = judge(ours, series(noise=300, seed=seed + 100, shape=wandering(seed + 100)))
    assert not finding.passed, finding.text
    assert "too noisy" not in finding.text


def test_growth_that_the_stock_worker_has_too_is_not_ours():
    assert judge(series(per_minute=200, noise=50, seed=1), series(200, noise=50, seed=2)).passed


def test_growth_beside_a_stock_worker_that_shrinks_must_be_growth():
    assert judge(series(noise=50, seed=1), series(per_minute=-200, noise=50, seed=2)).passed


def test_what_fills_during_the_warm_up_is_no_leak():
    filling = series(noise=50, seed=1, shape=lambda minute: 8000 * (1 - exp(-minute / 2)))
    assert judge(filling, series(noise=50, seed=2)).passed


def test_one_step_is_no_leak():
    step = series(noise=50, seed=1, shape=lambda minute: 1500 if minute > 12 else 0)
    assert judge(step, series(noise=50, seed=2)).passed


def test_a_step_a_few_minutes_is_a_leak():
    """What a lost connection leaves behind grows by steps."""
    steps = series(noise=50, seed=1, shape=lambda minute: int(minute / 2) * 400)
    assert not judge(steps, series(noise=50, seed=2)).passed


def test_a_run_that_could_not_have_seen_a_leak_proves_nothing():
    finding = judge(series(noise=30_000, seed=1), series(noise=50, seed=2))
    assert not finding.passed
    assert "too noisy to say" in finding.text


def test_the_text_says_how_small_a_leak_would_have_been_seen():
    """None but noise of ours: the tolerated 20 kB a minute, at 600 tasks."""
    assert "a leak of 20 kB/min, 34 bytes a task" in judge(series(), series()).text


def test_the_slope_of_a_line_is_exact():
    found = slope(series(per_minute=12))
    assert (found.low, found.value, found.high) == pytest.approx((12, 12, 12))


def test_the_interval_is_sens():
    """Sen (1968): 24 blocks, 276 pairs; 1.96 times the root of 24 · 23 · 53 / 18, halved: 39.5."""
    values = [float(value) for value in random.Random(3).sample(range(1000), verdict.BLOCKS)]
    found = slope(Series([60.0 * number for number in range(verdict.BLOCKS)], values))
    pairs = sorted(
        (values[later] - values[earlier]) / (later - earlier)
        for later in range(verdict.BLOCKS)
        for earlier in range(later)
    )
    assert (found.low, found.high) == (pairs[98], pairs[178])


def test_wild_values_do_not_move_the_slope():
    wild = series(per_minute=12, shape=lambda minute: 50_000 if 17 < minute < 18 else 0)
    assert slope(wild).value == pytest.approx(12, abs=1)


# counts


AT_REST = {
    "ready": {"celery": 0, "celery.batch": 0},
    "unacknowledged": 0,
    "probes": {"a": {"busy": {"held": 0, "reserved": 0}}, "b": {"busy": {"held": 0}}},
}


def rest(**changes):
    return verdict.judge_rest("at rest", {**AT_REST, **changes}, AT_REST)


def test_at_rest_every_counter_is_zero():
    told = "3 counters are 0; stock's left: none"
    assert rest() == verdict.Finding("at rest", True, told)


def test_what_the_stock_worker_keeps_is_told_and_is_not_ours():
    finding = verdict.judge_rest("at rest", AT_REST, {**AT_REST, "unacknowledged": 6})
    assert finding.passed
    assert finding.text.endswith("stock's left: {'unacknowledged': 6}")


def test_too_few_samples_prove_nothing():
    few = Series([0.0, 5.0], [1.0, 1.0])
    assert not judge(few, few).passed


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ready": {"celery": 2}}, "ready in celery': 2"),
        ({"unacknowledged": 1}, "unacknowledged': 1"),
        ({"probes": {"a": {"busy": {"held": 3}}, "b": {"busy": {}}}}, "held at a': 3"),
        ({"probes": {"a": {"busy": {"held": 0}}}}, "1 silent"),
    ],
)
def test_anything_left_is_told(changes, told):
    finding = rest(**changes)
    assert not finding.passed
    assert told in finding.text


def test_what_is_kept_may_grow_as_much_as_the_stock_workers():
    before, stock = {"fds": 50, "on_tick": 3}, {"fds": 0, "on_tick": 20}
    assert verdict.judge_kept("kept", before, {"fds": 50, "on_tick": 23}, stock).passed
    grown = verdict.judge_kept("kept", before, {"fds": 51, "on_tick": 24}, stock)
    assert grown.text.startswith("grown: fds, on_tick; fds 50 → 51 (stock +0)")
    assert not grown.passed


def test_what_shrank_is_no_growth():
    assert verdict.judge_kept("kept", {"fds": 50}, {"fds": 48}, {"fds": -5}).passed


@pytest.mark.parametrize("last", [0, 33, None])
def test_a_window_that_is_gone_or_grows_without_bound_is_told(last):
    assert verdict.judge_windows([7, 9], [16, 16], 32).passed
    assert not verdict.judge_windows([7, last], [16, 16], 32).passed


def test_a_correction_of_the_audit_is_told():
    assert verdict.judge_audit([0, 0]).passed
    assert not verdict.judge_audit([0, 1, 0]).passed


@pytest.mark.parametrize("code", [1, None])
def test_a_worker_that_has_failed_or_hangs_is_told(code):
    assert verdict.judge_ends({"a": 0}, {"b": 0}).passed
    assert not verdict.judge_ends({"a": code}, {"b": 0}).passed
    assert verdict.judge_ends({"a": 0}, {"b": code}).passed


# tasks


def entry(event, label, name="i.early", retries=0):
    return SimpleNamespace(event=event, label=label, name=name, more={"retries": retries})


def ran(label, *ends, name="i.early"):
    """Each attempt starts once, and ends as told."""
    for retries, end in enumerate(ends):
        yield entry("start", label, name, retries)
        yield entry(end, label, name, retries)


def test_every_task_is_accounted_for():
    entries = [
        *ran("done", "finish"),
        *ran("failed", "error"),
        *ran("retried", "retry", "retry", "finish"),
        *ran("given up", "retry"),
    ]
    found = verdict.account(["done", "failed", "retried", "given up", "never seen"], entries)
    assert found == verdict.Account(5, 2, 1, 0, 0, ["given up", "never seen"])
    assert not verdict.judge_tasks(found, found).passed


def test_a_second_run_of_one_attempt_is_counted_and_a_retry_is_not():
    entries = [*ran("late", "retry", "finish", name="b.late"), *ran("early", "finish")]
    found = verdict.account(["late", "early"], entries * 2)
    assert (found.again, found.again_early, found.lost) == (3, 1, [])
    assert verdict.judge_tasks(found, found).passed


# the log

INFO = "[2026-01-01 10:00:00,000: INFO/MainProcess] Task b.late[1] received"
FAILED = (
    "[2026-01-01 10:00:00,000: ERROR/ForkPoolWorker-1] Task b.late.failing[1] raised unexpected: "
    "ValueError('as asked')\nTraceback (most recent call last):\n  File …\nValueError: as asked"
)
AUDITED = (
    "[2026-01-01 10:00:00,000: WARNING/MainProcess] celery-fair: the slot of b.late[1] was never "
    "given back; freed by the audit"
)
BLIND = (
    "[2026-01-01 10:00:00,000: WARNING/MainProcess] celery-fair: the sensor can't read the queues "
    "(ConnectionError('the broker has closed the connection')); backlogs are unknown"
)
BARE = "Traceback (most recent call last):\n  File …\nKeyError: 1"


def test_expected_records_are_counted():
    finding = verdict.judge_log({"w": f"{INFO}\n{FAILED}\n{FAILED}\n{INFO}"}, cuts=0)
    assert finding == verdict.Finding("the log", True, "2 × a task fails as asked")


@pytest.mark.parametrize(
    ("unexpected", "told"),
    [(AUDITED, "1 × celery-fair: the slot of b.late[1]"), (BARE, "1 × Traceback")],
    ids=["a warning", "a bare traceback"],
)
def test_anything_else_that_is_loud_fails(unexpected, told):
    finding = verdict.judge_log({"w": f"{INFO}\n{unexpected}\n{FAILED}"}, cuts=0)
    assert not finding.passed
    assert told in finding.text


def test_a_cut_is_told_once():
    assert verdict.judge_log({"w": f"{BLIND}\n{INFO}\n{BLIND}"}, cuts=2).passed
    finding = verdict.judge_log({"w": f"{BLIND}\n{INFO}\n{BLIND}"}, cuts=1)
    assert not finding.passed
    assert "though that was done 1 times" in finding.text
