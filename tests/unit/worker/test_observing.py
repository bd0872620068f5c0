"""Observing: Celery's own order, while slots, waits and decisions are counted."""

from __future__ import annotations

import time
from time import monotonic
from types import SimpleNamespace

import pytest

from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.observing import Observing
from celery_fair.worker.pools import Pool

SLOTS, RESERVE = 4, 1


class FakePool(Pool):
    """Takes jobs and completes them when the test says so."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(num_processes=SLOTS, RUN=1, _state=1))


class Request:
    """The part of Celery's request that dispatching looks at."""

    id = "an-id"
    task = SimpleNamespace(name="shop.answer")

    def __init__(self, kind=None, queue="celery", ready_at=None) -> None:
        at = time.time() if ready_at is None else ready_at
        self._message = SimpleNamespace(headers={"fair": f"{kind} {at!r}"} if kind else {})
        self.delivery_info = {"routing_key": queue}

    def on_success(self, *_):
        """The callback whose owner the dispatcher looks for."""


class Worker:
    """What stands around the dispatcher: Celery's process_task and pool.apply_async."""

    def __init__(self) -> None:
        settings = PolicySettings(reserve=RESERVE)
        self.policy = Policy(settings, slots=SLOTS, now=monotonic())
        self.order = []
        self.jobs = []
        self.dispatcher = Dispatcher(
            self.policy,
            FakePool(),
            self._process,
            lambda seconds, callback: None,
            lambda queue: BATCH if queue == "celery.batch" else INTERACTIVE,
        )
        self.dispatcher.enforcing = False
        self.observing = Observing(self.dispatcher)

    def _process(self, request):
        self.order.append(request)
        self.dispatcher.apply_async(
            lambda **options: self.jobs.append(options), callback=request.on_success
        )

    def receive(self, *requests):
        for request in requests:
            self.observing.on_task_request(request)

    def complete(self):
        for job in self.jobs:
            job["callback"]((0, "a result", 0.1))
        self.jobs.clear()


@pytest.fixture
def worker():
    return Worker()


def test_each_request_is_passed_on_at_once_and_in_celerys_order(worker):
    requests = [Request(BATCH), Request(BATCH), Request(INTERACTIVE), Request(BATCH)]
    worker.receive(*requests)
    assert worker.order == requests


def test_what_the_reserve_or_the_slots_would_have_held_is_counted(worker):
    worker.receive(*(Request(BATCH) for _ in range(SLOTS + 2)))
    assert worker.dispatcher.would_have_held == {
        BATCH: SLOTS + 2 - (SLOTS - RESERVE),
        INTERACTIVE: 0,
    }


def test_an_interactive_request_finds_the_reserve(worker):
    worker.receive(*(Request(BATCH) for _ in range(SLOTS - RESERVE)), Request(INTERACTIVE))
    assert worker.dispatcher.would_have_held == {BATCH: 0, INTERACTIVE: 0}


def test_slots_in_use_are_counted_by_kind_and_given_back(worker):
    worker.receive(Request(BATCH), Request(INTERACTIVE), Request(BATCH))
    assert (worker.policy.running_batch, worker.policy.running_interactive) == (2, 1)
    worker.complete()
    assert (worker.policy.running_batch, worker.policy.running_interactive) == (0, 0)
    assert worker.dispatcher.dispatched == {BATCH: 2, INTERACTIVE: 1}


def test_waits_are_counted_from_when_a_task_was_ready(worker):
    worker.receive(Request(BATCH, ready_at=time.time() - 60))
    worker.dispatcher.settle()
    assert worker.dispatcher.counting.waits.summary(BATCH, monotonic())["max"] == pytest.approx(
        60, abs=5
    )


def test_a_message_without_our_header_has_the_kind_of_its_queue_and_no_wait(worker):
    worker.receive(Request(queue="celery.batch"), Request(queue="celery"))
    assert worker.dispatcher.dispatched == {BATCH: 1, INTERACTIVE: 1}
    worker.dispatcher.settle()
    assert worker.dispatcher.counting.waits.summary(BATCH, monotonic())["count"] == 0


def test_a_job_that_is_no_task_is_left_alone(worker):
    calls = []
    worker.dispatcher.apply_async(lambda **options: calls.append(options), callback=print)
    assert calls == [{"callback": print}]
    assert len(worker.dispatcher.slots) == 0


def test_what_was_passed_on_counts_also_where_the_pool_takes_it_after_a_change_of_mode(worker):
    """Prefork's semaphore may keep a request until then."""
    request = Request(BATCH)
    worker.dispatcher.enforcing = True
    worker.dispatcher.apply_async(
        lambda **options: worker.jobs.append(options), callback=request.on_success
    )
    assert worker.policy.running_batch == 1
    worker.complete()
    assert worker.policy.running_batch == 0


def test_what_was_passed_on_and_revoked_since_has_no_slot_to_withdraw(worker):
    request = Request(BATCH)
    request._already_revoked = True
    worker.dispatcher.process_task(lambda request: None, request)
    assert len(worker.dispatcher.slots) == 0


def test_what_was_passed_on_and_fails_on_its_way_to_the_pool_fails_as_it_did(worker):
    def broken(request):
        raise OSError("no child left")

    with pytest.raises(OSError, match="no child left"):
        worker.dispatcher.process_task(broken, Request(BATCH))


def test_a_job_in_the_queue_of_a_pool_waits_until_it_is_begun(worker):
    """Threads: the executor takes all that Celery has prefetched, and runs a few."""
    worker.dispatcher.pool.queues_jobs = True
    worker.receive(*(Request(BATCH, ready_at=time.time() - 60) for _ in range(3)))
    assert worker.policy.running_batch == 3, "nothing that comes later can overtake them"
    assert len(worker.dispatcher.parked) == 3
    first = next(iter(worker.dispatcher.slots))
    first.started_at -= 5.0
    worker.jobs[0]["accept_callback"](1, 0.0)
    worker.dispatcher.settle()
    assert len(worker.dispatcher.parked) == 2
    assert monotonic() - first.started_at < 5.0
    assert worker.dispatcher.counting.waits.summary(BATCH, monotonic())["count"] == 1


def test_a_job_that_a_pool_has_dropped_unbegun_is_parked_no_longer(worker):
    worker.dispatcher.pool.queues_jobs = True
    worker.receive(Request(BATCH))
    (slot,) = worker.dispatcher.slots
    slot.outcome = "requeued"
    slot.release()
    worker.dispatcher.settle()
    assert not worker.dispatcher.parked
    assert worker.policy.running_batch == 0
