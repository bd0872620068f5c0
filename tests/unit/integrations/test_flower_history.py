"""What the counters of workers have gained, step by step, over a quarter of an hour."""

from __future__ import annotations

import pytest

from celery_fair.integrations.flower.history import STEP_SECONDS, STEPS, History
from celery_fair.observe.counts import BOUNDS
from tests.flower.facts import facts, histogram, kind

BEGIN = 1000.0


def waited(**buckets):
    return facts(interactive=kind("celery", waits=histogram(**buckets)))


def test_a_point_is_the_p95_of_what_was_gained_since_the_last_facts():
    history = History(BEGIN)
    history.add(waited(b4=100), waited(b4=200, b7=4), BEGIN)
    # 95 % of 104 lie in the bucket from 10 to 25 ms, evenly spread.
    ago, interactive, batch = history.waits(BEGIN)[-1]
    assert ago == 0.0
    assert interactive == pytest.approx(0.01 + 0.015 * (0.95 * 104) / 100, abs=1e-5)
    assert batch is None


def test_gains_of_several_workers_are_one_histogram():
    history = History(BEGIN)
    history.add(waited(), waited(b0=10), BEGIN)
    history.add(waited(), waited(b9=90), BEGIN)
    assert history.waits(BEGIN)[-1][1] == pytest.approx(0.5 + 0.5 * 85 / 90, abs=1e-5)


def test_a_restarted_worker_counts_from_nothing():
    history = History(BEGIN)
    before, after = waited(b9=100), {**waited(b2=10), "started_at": 2.0}
    history.add(before, after, BEGIN)
    assert history.waits(BEGIN)[-1][1] <= BOUNDS[2]


def test_counters_that_fall_are_no_gain():
    history = History(BEGIN)
    history.add(waited(b2=10), waited(b2=5), BEGIN)
    assert history.waits(BEGIN)[-1][1] is None


def test_a_wait_longer_than_any_bound_is_shown_as_the_longest():
    history = History(BEGIN)
    history.add(waited(), waited(**{f"b{len(BOUNDS)}": 1}), BEGIN)
    assert history.waits(BEGIN)[-1][1] == BOUNDS[-1]


def test_a_quarter_of_an_hour_is_kept_and_no_more():
    history = History(BEGIN)
    for step in range(10 * STEPS):
        history.add(waited(), waited(b2=1), BEGIN + step * STEP_SECONDS)
    points = history.waits(BEGIN + (10 * STEPS - 1) * STEP_SECONDS)
    assert len(points) == STEPS
    assert points[0][0] == pytest.approx((STEPS - 2) * STEP_SECONDS)
    assert len(history._steps) == STEPS


def test_a_quiet_time_is_a_gap():
    history = History(BEGIN)
    history.add(waited(), waited(b2=1), BEGIN)
    values = [point[1] for point in history.waits(BEGIN + 10 * STEP_SECONDS)]
    assert [value is not None for value in values[-12:]] == [False, *[True] * 3, *[False] * 8]


def test_idle_slots_are_a_mean_over_the_minutes_since_listening_began():
    history = History(BEGIN)
    history.add(facts(idle={"reserve": 5.0}), facts(idle={"reserve": 65.0}), BEGIN + 30)
    assert history.idle_slots(BEGIN + 30) == {"reserve": pytest.approx(2.0)}
    assert history.idle_slots(BEGIN + 400) == {}


def test_reasons_that_nobody_can_have_are_bounded():
    history = History(BEGIN)
    many = {f"reason {number}": 1.0 for number in range(1000)}
    history.add(facts(idle={"reserve": 0.0}), facts(idle=many), BEGIN)
    assert len(history.idle_slots(BEGIN)) == 12


@pytest.mark.parametrize(
    "broken", [{}, facts(interactive=kind("celery", waits={"buckets": [1, 2]})), waited(b0="x")]
)
def test_malformed_facts_add_nothing(broken):
    history = History(BEGIN)
    with pytest.raises((KeyError, TypeError, ValueError)):
        history.add(facts(), broken, BEGIN)
    assert history._steps == type(history._steps)()
