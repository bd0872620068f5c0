"""Why a kind has waited: seconds by reason, over any stretch of the last hour."""

from __future__ import annotations

import pytest

from celery_fair.observe.record import LONGEST_TICK_SECONDS
from celery_fair.observe.timeline import HORIZON_SECONDS, SEGMENTS, Timeline
from celery_fair.policy import BATCH, INTERACTIVE, Load, Policy, PolicySettings
from celery_fair.policy.waiting import Reason

TICK = 0.1


def scene(batch=4, load=None):
    """Four slots with so many batch tasks in them, none kept, while more batch waits."""
    policy = Policy(PolicySettings(reserve=0), slots=4, now=0.0)
    for _ in range(batch):
        policy.start(BATCH, 0.0)
    policy.observe(load or Load(0, 9), 0.0)
    return policy.scene(0, 0, 0.0)


TAKEN, ARRIVING, NOTHING = scene(), scene(2), scene(load=Load(0, 0))
INTERACTIVE_TOO = scene(load=Load(2, 9))


@pytest.fixture
def timeline():
    return Timeline(0.0)


def run(timeline, scene, ticks, start=0.0):
    for number in range(ticks):
        timeline.tick(scene, start + TICK * (number + 1))


def test_a_wait_is_charged_to_what_hindered_it(timeline):
    run(timeline, TAKEN, 30)
    waited = timeline.over(BATCH, 0.0, 3.0)
    assert waited.seconds == {Reason.SLOTS_TAKEN: pytest.approx(3.0)}
    assert waited.running_batch == pytest.approx(4.0)
    assert waited.running_interactive == 0.0


def test_only_the_part_in_which_it_waited_counts(timeline):
    run(timeline, TAKEN, 30)
    run(timeline, ARRIVING, 10, 3.0)
    waited = timeline.over(BATCH, 2.0, 3.5).seconds
    assert list(waited.items()) == [
        (Reason.SLOTS_TAKEN, pytest.approx(1.0)),
        (Reason.ARRIVING, pytest.approx(0.5)),
    ]


def test_each_kind_has_its_own(timeline):
    run(timeline, INTERACTIVE_TOO, 10)
    assert set(timeline.over(BATCH, 0.0, 1.0).seconds) == {Reason.INTERACTIVE_FIRST}
    assert set(timeline.over(INTERACTIVE, 0.0, 1.0).seconds) == {Reason.SLOTS_TAKEN}


def test_what_it_waits_for_now_is_known_with_its_beginning(timeline):
    run(timeline, ARRIVING, 10)
    run(timeline, TAKEN, 10, 1.0)
    assert timeline.now(BATCH) == (Reason.SLOTS_TAKEN, pytest.approx(1.0))
    timeline.tick(NOTHING, 2.1)
    assert timeline.now(BATCH) is None


def test_where_nothing_waited_nothing_is_charged(timeline):
    run(timeline, TAKEN, 10)
    run(timeline, NOTHING, 10, 1.0)
    run(timeline, TAKEN, 10, 2.0)
    assert sum(timeline.over(BATCH, 0.0, 3.0).seconds.values()) == pytest.approx(2.0)
    assert timeline.over(BATCH, 1.0, 2.0).seconds == {}


def test_a_short_blank_in_a_wait_is_taken_for_what_comes_after_it(timeline):
    run(timeline, NOTHING, 9)
    run(timeline, TAKEN, 10, 1.0)
    assert timeline.over(BATCH, 0.2, 2.0).seconds == {Reason.SLOTS_TAKEN: pytest.approx(1.1)}
    filled = timeline.over(BATCH, 0.2, 2.0, blank_seconds=0.8).seconds
    assert filled == {Reason.SLOTS_TAKEN: pytest.approx(1.8)}
    longer = timeline.over(BATCH, 0.2, 2.0, blank_seconds=0.6).seconds
    assert longer == {Reason.SLOTS_TAKEN: pytest.approx(1.1)}


def test_a_loop_that_stood_still_knows_nothing_of_that_time(timeline):
    run(timeline, TAKEN, 10)
    timeline.tick(TAKEN, 1.0 + LONGEST_TICK_SECONDS + 0.1)
    assert sum(timeline.over(BATCH, 0.0, 99.0).seconds.values()) == pytest.approx(1.0)
    assert timeline.now(BATCH) == (Reason.SLOTS_TAKEN, pytest.approx(6.1))


def test_a_steady_wait_is_one_segment(timeline):
    run(timeline, TAKEN, 3 * SEGMENTS)
    assert timeline.merged == 0
    assert len(timeline._segments[BATCH]) == 1


def test_reasons_that_change_with_each_tick_make_older_ones_coarse_and_lose_no_second(timeline):
    for number in range(10 * SEGMENTS):
        timeline.tick((TAKEN, ARRIVING)[number % 2], TICK * (number + 1))
    total = 10 * SEGMENTS * TICK
    assert len(timeline._segments[BATCH]) <= SEGMENTS
    assert timeline.merged > 0
    waited = timeline.over(BATCH, 0.0, total).seconds
    assert waited[Reason.SLOTS_TAKEN] == pytest.approx(total / 2)
    assert waited[Reason.ARRIVING] == pytest.approx(total / 2)
    exact = timeline.over(BATCH, total - 0.1, total).seconds
    assert exact == {Reason.ARRIVING: pytest.approx(0.1)}


def test_what_was_too_long_ago_is_forgotten(timeline):
    run(timeline, TAKEN, 10)
    start = HORIZON_SECONDS + 10.0
    timeline.tick(NOTHING, start)
    for number in range(SEGMENTS + 1):
        timeline.tick((TAKEN, ARRIVING)[number % 2], start + TICK * (number + 1))
    assert timeline.over(BATCH, 0.0, 10.0).seconds == {}
