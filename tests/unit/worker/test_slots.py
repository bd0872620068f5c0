"""Slots: taken by a dispatch, given back once."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker.slots import Slot, Slots


class Request(SimpleNamespace):
    """Known by its identity, as Celery's are."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _request(time_start: float | None = None) -> Request:
    task = SimpleNamespace(name="shop.answer")
    return Request(
        id="id", task=task, time_start=time_start, _already_revoked=False, _already_cancelled=False
    )


def _slots() -> tuple[Slots, list[int]]:
    freed: list[int] = []
    return Slots(lambda: freed.append(1)), freed


def test_a_slot_is_given_back_once_however_often_it_is_released():
    slots, freed = _slots()
    slot = slots.take(BATCH, _request(), 1.0)
    assert len(slots) == 1
    slot.release()
    slot.release("a result, as callbacks are called")
    assert len(slots) == 0
    assert list(slots.finished) == [slot]
    assert freed == [1]


@pytest.mark.parametrize("odd", [(), (0, "r"), (1, "r"), (1, "r", 1.0, "x"), None, 7, object()])
def test_a_slot_is_given_back_whatever_its_callback_was_given(odd):
    slots, freed = _slots()
    for give_back in (Slot.end, Slot.fail):
        give_back(slots.take(BATCH, _request(), 1.0), odd)
    assert len(slots) == 0
    assert len(freed) == 2


def test_a_slot_that_was_given_back_cannot_be_withdrawn():
    slots, _ = _slots()
    ran, parked = slots.take(BATCH, _request(), 1.0), slots.take(BATCH, _request(), 1.0)
    ran.end((0, "a result", 0.1))
    for slot in (ran, parked):
        slot.withdraw()
    assert (ran.outcome, parked.outcome) == ("succeeded", "withdrawn")
    assert list(slots.finished) == [ran, parked]


def test_two_dispatches_of_one_request_are_two_slots():
    """A retry reuses the task id, and here even the request."""
    slots, _ = _slots()
    request = _request()
    first, second = slots.take(BATCH, request, 1.0), slots.take(BATCH, request, 2.0)
    first.release()
    assert len(slots) == 1
    assert request.fair_slot is second


def test_of_many_threads_one_gives_the_slot_back():
    slots, freed = _slots()
    for _ in range(50):
        slot = slots.take(BATCH, _request(), 1.0)
        threads = [threading.Thread(target=slot.release) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(freed) == len(slots.finished) == 50


def test_the_oldest_start_of_each_kind():
    slots, _ = _slots()
    assert slots.oldest_started_at(BATCH) is None
    slots.take(BATCH, _request(), 3.0)
    slots.take(BATCH, _request(), 2.0)
    slots.take(INTERACTIVE, _request(), 1.0)
    assert slots.oldest_started_at(BATCH) == 2.0
    assert slots.oldest_started_at(INTERACTIVE) == 1.0


def test_a_flush_frees_the_slots_of_jobs_that_no_child_had_accepted():
    slots, _ = _slots()
    waiting = slots.take(BATCH, _request(time_start=None), 1.0)
    running = slots.take(BATCH, _request(time_start=5.0), 1.0)
    slots.release_unaccepted()
    assert list(slots.finished) == [waiting]
    assert len(slots) == 1
    running.release()
    assert len(slots) == 0


def test_the_audit_frees_what_celery_does_not_know_twice_in_a_row():
    slots, _ = _slots()
    known, lost = _request(), _request()
    slots.take(BATCH, known, 1.0)
    slots.take(INTERACTIVE, lost, 1.0)
    assert slots.audit(lambda request: request is known) == []
    newly_lost = _request()
    slots.take(BATCH, newly_lost, 9.0)
    assert slots.audit(lambda request: request is known) == [lost]
    assert slots.audited == 1
    assert len(slots) == 2


def test_a_slot_that_celery_knows_again_is_no_suspect():
    slots, _ = _slots()
    slots.take(BATCH, _request(), 1.0)
    slots.audit(lambda request: False)
    slots.audit(lambda request: True)
    assert slots.audit(lambda request: False) == []


def test_an_audited_slot_that_is_released_after_all_counts_once():
    slots, freed = _slots()
    slot = slots.take(BATCH, _request(), 1.0)
    slots.audit(lambda request: False)
    slots.audit(lambda request: False)
    slot.release()
    assert freed == [1]


def test_what_celery_counts_though_it_has_left_its_slot_is_told_at_the_second_look():
    slots, _ = _slots()
    running, left, waiting = _request(), _request(), _request()
    slots.take(BATCH, running, 1.0)
    slots.take(BATCH, left, 1.0).release()
    known = [running, left, waiting]
    assert slots.ended(known) == []
    assert slots.ended(known) == [left]
    assert slots.ended([running, waiting]) == []
