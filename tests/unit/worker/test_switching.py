"""A change of mode that goes wrong: the worker goes on, or reconnects."""

from __future__ import annotations

from threading import RLock
from types import SimpleNamespace

import pytest

from celery_fair.retrying import Retrying
from celery_fair.settings import FairSettings
from celery_fair.worker import internals
from celery_fair.worker.counting import Counting
from celery_fair.worker.pulling import Pulling
from celery_fair.worker.scheduler import Scheduler
from celery_fair.worker.switching import Switching


class Consumer:
    """What Celery's consumer, or ours, does when it is told to."""

    def __init__(self, name, log):
        self.name, self.log = name, log
        self.on_message = "the handler"
        self.queues = []
        self.fails = []

    def consume(self):
        if self.fails:
            raise self.fails.pop()
        self.log.append(f"{self.name} consumes")

    def cancel(self):
        self.log.append(f"{self.name} rests")


class Worker:
    """A worker that enforces, whose other consumer may fail."""

    def __init__(self, monkeypatch):
        self.log = []
        self.enforcing, self.observing = (Consumer(n, self.log) for n in ("lanes", "celery"))
        self.c = SimpleNamespace(
            connection_errors=(ConnectionError,),
            qos=SimpleNamespace(value=4),
            initial_prefetch_count=8,
            max_prefetch_count=8,
            connection=None,
            _maximum_prefetch_restored=True,
            timer=None,
            task_buckets={},
            task_consumer=None,
            update_strategies=lambda: None,
            call_soon=lambda call, mode: self.log.append(f"{mode} asked for"),
            app=SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from={}))),
        )
        monkeypatch.setattr(internals, "consume_as_celery", self._as_celery)
        self.scheduled = []
        monkeypatch.setattr(internals, "scheduled_requests", lambda timer: self.scheduled)
        monkeypatch.setattr(internals, "renew_default_channel", lambda connection: None)
        self.fair = fair = SimpleNamespace(
            settings=SimpleNamespace(mode="enforce"), fronts=SimpleNamespace(served=False)
        )
        puller = SimpleNamespace(
            scheduled=None,
            build=lambda: Pulling(self.enforcing, {}, {}, {}),
            leave_to_celery=lambda: Pulling(self.observing, {}, {}, {}),
        )
        self.hooks = SimpleNamespace(
            install=lambda: None,
            enforce=lambda: self.log.append("held"),
            observe=lambda receiver: self.log.append("passed on"),
        )
        dispatcher = SimpleNamespace(lanes={}, enforcing=None, lock=RLock())
        self.dispatcher = dispatcher
        self.switching = Switching(self.c, fair, dispatcher, puller, self.hooks)
        self.switching.begin()
        self.c.task_consumer = self.switching.connect().consumer
        self.log.clear()

    def _as_celery(self, c):
        c.task_consumer, c.qos = self.observing, SimpleNamespace(value=8)


@pytest.fixture
def worker(monkeypatch):
    return Worker(monkeypatch)


def test_one_consumer_rests_before_the_other_consumes(worker):
    worker.switching.to("observe")
    assert worker.log == ["passed on", "lanes rests", "celery consumes"]
    assert worker.c.task_consumer is worker.observing
    assert worker.observing.on_message == "the handler"
    assert worker.dispatcher.enforcing is False
    assert worker.fair.fronts.served is False, "nobody consumes fronts first"


def test_tasks_that_wait_for_their_time_have_places_in_celerys_window(worker):
    worker.scheduled = ["one", "another"]
    worker.switching.to("observe")
    assert worker.c.qos.value == 8 + 2


def test_the_mode_that_it_has_is_no_change(worker):
    worker.switching.to("enforce")
    assert worker.log == []


def test_a_worker_that_cannot_change_goes_on_as_before(worker, caplog):
    worker.observing.fails = [RuntimeError("no such queue")]
    worker.switching.to("observe")
    assert worker.log[-3:] == ["held", "celery rests", "lanes consumes"]
    assert worker.c.task_consumer is worker.enforcing
    assert (worker.switching.mode, worker.dispatcher.enforcing) == ("enforce", True)
    assert "mode observe can't be had, so it stays enforce" in caplog.text


def test_what_cannot_be_had_is_not_asked_for_again_until_something_else_was(worker):
    worker.observing.fails = [RuntimeError("no such queue")]
    worker.switching.follow("observe")
    worker.switching.to("observe")
    worker.log.clear()
    worker.switching.follow("observe")
    assert worker.log == []
    worker.switching.follow("enforce")
    worker.switching.follow("observe")
    assert worker.log == ["observe asked for"]


def test_a_worker_that_cannot_go_back_either_reconnects(worker):
    """Nobody consumes by then, and nothing but a reconnect puts that right."""
    worker.observing.fails = [RuntimeError("no such queue")]
    worker.enforcing.fails = [RuntimeError("nor that one")]
    with pytest.raises(ConnectionResetError):
        worker.switching.to("observe")
    assert worker.switching.mode == "enforce"


def test_a_connection_lost_in_the_middle_comes_back_in_the_new_mode(worker):
    worker.observing.fails = [ConnectionResetError("by peer")]
    with pytest.raises(ConnectionResetError):
        worker.switching.to("observe")
    assert worker.switching.mode == "observe"


@pytest.mark.parametrize(("mode", "left"), [("enforce", (8, True)), ("observe", (1, False))])
def test_what_celery_takes_from_its_window_at_a_reconnect_is_given_back_by_it_alone(
    worker, mode, left
):
    """Lanes have none; and Celery must not find it widened before it has begun to."""
    worker.switching.to(mode)
    worker.c.initial_prefetch_count, worker.c._maximum_prefetch_restored = 1, False
    worker.switching.connect()
    assert (worker.c.initial_prefetch_count, worker.c._maximum_prefetch_restored) == left
    worker.switching.to("enforce")
    assert worker.c.initial_prefetch_count == 8, "for the next change to Celery's own order"


def test_retries_follow_the_mode_and_all_that_decide_share_one_budget():
    """A pool of threads is never replaced; and of another, children may have the budget already."""
    fair = SimpleNamespace(settings=FairSettings())
    fair.retrying = retrying = Retrying(fair)
    scheduler = SimpleNamespace(
        fair=fair,
        settings=fair.settings,
        dispatcher=SimpleNamespace(probing=SimpleNamespace(), counting=Counting()),
        asking=SimpleNamespace(),
        c=SimpleNamespace(app=SimpleNamespace(tasks={})),
    )
    found = []
    for enforcing in (False, True, False, True):
        Scheduler._follow_mode(scheduler, enforcing)
        found.append((retrying.decides, retrying.budget is not None))
    assert found == [(False, False), (True, True), (False, True), (True, True)]
    budget = retrying.budget
    Scheduler._follow_mode(scheduler, True)
    assert retrying.budget is budget
