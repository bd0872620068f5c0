"""Slot time is a counter: whatever a task is on its way from and to, it never falls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from celery_fair.observe.counts import Counts
from celery_fair.observe.facts import _slot_seconds
from celery_fair.observe.record import Record
from celery_fair.policy import BATCH, INTERACTIVE
from celery_fair.worker.slots import Slots


@pytest.fixture
def scheduler():
    """As much of one as is looked at: a batch task has run since 0."""
    slots = Slots()
    slots.take(BATCH, SimpleNamespace(), 0.0)
    counting = SimpleNamespace(counts=Counts(["succeeded"], []), ended=[])
    dispatcher = SimpleNamespace(slots=slots, counting=counting, parked=set())
    return SimpleNamespace(dispatcher=dispatcher, record=Record(0.0))


def count(scheduler, run_seconds):
    ended = SimpleNamespace(
        outcome="succeeded", started_at=0.0, finished_at=run_seconds, wait_seconds=0.0
    )
    scheduler.dispatcher.counting.ended.clear()
    scheduler.dispatcher.counting.counts.end(BATCH, "t", [ended])


def test_what_runs_counts_until_now(scheduler):
    assert _slot_seconds(scheduler, BATCH, 5.0) == 5.0
    assert _slot_seconds(scheduler, INTERACTIVE, 5.0) == 0.0


def test_a_slot_that_was_given_back_counts_before_the_loop_has_noted_it(scheduler):
    (slot,) = scheduler.dispatcher.slots
    slot.release()
    slot.finished_at = 7.0
    assert _slot_seconds(scheduler, BATCH, 9.0) == 7.0
    scheduler.dispatcher.counting.ended.append(scheduler.dispatcher.slots.finished.popleft())
    assert _slot_seconds(scheduler, BATCH, 9.0) == 7.0
    count(scheduler, 7.0)
    assert _slot_seconds(scheduler, BATCH, 9.0) == 7.0


def test_a_slot_between_two_places_is_made_up_for_and_nothing_falls(scheduler):
    assert _slot_seconds(scheduler, BATCH, 5.0) == 5.0
    (slot,) = scheduler.dispatcher.slots
    slot.release()
    scheduler.dispatcher.slots.finished.clear()
    assert _slot_seconds(scheduler, BATCH, 6.0) == 5.0
    count(scheduler, 6.0)
    assert _slot_seconds(scheduler, BATCH, 6.0) == 6.0


def test_what_waits_in_a_pool_has_had_nothing_of_the_slots(scheduler):
    scheduler.dispatcher.parked.update(scheduler.dispatcher.slots)
    assert _slot_seconds(scheduler, BATCH, 5.0) == 0.0
