"""The ring of tasks that an observing worker has seen: bounded, compact, read by pages."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from celery_fair.observe.endings import SUCCEEDED
from celery_fair.observe.finished import (
    Finished,
    FinishedTasks,
    packed,
    since_of,
    unpacked,
)
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker.counting import Counting
from celery_fair.worker.outcomes import WITHDRAWN
from celery_fair.worker.slots import Slots


def slot(kind=BATCH, *, ready=5.0, received=3.0, started=2.0, late=False, outcome=SUCCEEDED):
    """A task that has just ended; its times are that many seconds ago."""
    now, epoch = time.monotonic(), time.time()
    request = SimpleNamespace(id="id", task=SimpleNamespace(name="t", acks_late=late))
    request.delivery_info = {"routing_key": "celery"}
    ready_at = None if ready is None else epoch - ready
    taken = Slots().take(kind, request, now - started, now - received, ready_at)
    taken.outcome = outcome
    taken.release()
    return taken


def ended(ring, *slots):
    ring.ended(slots, time.time() - time.monotonic())


def all_of(ring):
    return list(ring.between(0, ring.total))


def test_a_task_is_known_with_its_kind_wait_and_run():
    ring = FinishedTasks(time.time())
    ended(ring, slot(BATCH, late=True))
    (task,) = all_of(ring)
    assert (task.kind, task.dated, task.late) == (BATCH, True, True)
    assert task.ready_at == pytest.approx(time.time() - 5.0, abs=0.2)
    assert task.wait_seconds == pytest.approx(3.0, abs=0.2)
    assert task.run_seconds == pytest.approx(2.0, abs=0.2)


def test_one_whose_message_doesnt_say_when_counts_from_its_receipt():
    ring = FinishedTasks(time.time())
    ended(ring, slot(INTERACTIVE, ready=None))
    (task,) = all_of(ring)
    assert not task.dated
    assert task.wait_seconds == pytest.approx(1.0, abs=0.2)


def test_a_clock_that_is_ahead_makes_no_negative_wait():
    ring = FinishedTasks(time.time())
    ended(ring, slot(ready=-10.0))
    (task,) = all_of(ring)
    assert task.wait_seconds == 0.0
    assert task.started_at == pytest.approx(time.time() - 2.0, abs=0.2)


def test_one_that_was_withdrawn_before_it_ran_is_none():
    ring = FinishedTasks(time.time())
    ended(ring, slot(outcome=WITHDRAWN))
    assert not len(ring)


def test_the_last_ones_are_kept_and_it_says_since_when_it_knows_all():
    begun = time.time() - 60
    ring = FinishedTasks(begun, kept=3)
    ended(ring, slot(ready=5.0))
    assert ring.since == begun
    ended(ring, *(slot(ready=float(ready)) for ready in (6, 7, 8)))
    assert (ring.total, ring.oldest, len(ring)) == (4, 1, 3)
    assert [round(time.time() - task.ready_at) for task in all_of(ring)] == [6, 7, 8]
    assert ring.since == pytest.approx(time.time(), abs=0.5)


def test_pages_go_back_to_the_oldest():
    ring = FinishedTasks(100.0, kept=5)
    ended(ring, *(slot(ready=float(ready)) for ready in range(3, 10)))
    newest = ring.page(most=2)
    assert (newest["first"], newest["oldest"]) == (5, 2)
    assert [round(time.time() - t.ready_at) for t in unpacked(newest["tasks"])] == [8, 9]
    last = ring.page(before=newest["first"], most=10)
    assert last["first"] == last["oldest"] == 2
    assert len(unpacked(last["tasks"])) == 3
    assert since_of(last, unpacked(last["tasks"])) == ring.since
    assert since_of(newest, unpacked(newest["tasks"])) == pytest.approx(time.time(), abs=0.5)
    assert unpacked(ring.page(before=0)["tasks"]) == []


def test_a_hundred_thousand_take_no_more_than_two_megabytes():
    ring = FinishedTasks(0.0)
    kept = [ring._ready, ring._waits, ring._runs, ring._flags]
    assert sum(column.itemsize for column in kept) * 100_000 < 2_000_000


def test_what_was_packed_is_read_again():
    tasks = [Finished(1e9 + n, n / 2, 1.5, BATCH if n % 2 else INTERACTIVE, n % 3 > 0, n % 5 > 3)
             for n in range(50)]  # fmt: skip
    assert unpacked(packed(tasks)) == tasks


@pytest.mark.parametrize("text", ["", "nonsense", packed([])[:-4], None])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match=r"expected|base64"):
        unpacked(text)


def test_sinks_hear_of_tasks_with_their_requests_and_outcome():
    heard = []
    counting = Counting()
    counting.sinks.append(
        SimpleNamespace(
            ended=lambda slots, to_epoch: heard.extend((s.request, s.outcome) for s in slots)
        )
    )
    taken = slot()
    counting.ended.append(taken)
    counting.settle()
    (request, outcome) = heard[0]
    assert request.task.name == "t"
    assert outcome == SUCCEEDED
    assert taken.request is None


def test_there_is_one_while_a_worker_observes_and_none_else():
    counting = Counting()
    first = counting.observe(True)
    assert counting.sinks == [first]
    second = counting.observe(True)
    assert counting.sinks == [second]
    assert counting.observe(False) is None
    assert counting.sinks == []
