"""Observers: users' own hooks, whose failures are theirs alone."""

from __future__ import annotations

import logging
from asyncio import CancelledError

import pytest
from celery.exceptions import WorkerShutdown, WorkerTerminate

from celery_fair.observer import Observer, Observers, TaskInfo

TASK = TaskInfo("batch", "shop.report", "id-1")


class Seeing(Observer):
    def __init__(self):
        self.seen = []

    def finished(self, task):
        self.seen.append(task)


class Raising(Observer):
    def __init__(self, error):
        self.error, self.calls = error, 0

    def finished(self, task):
        self.calls += 1
        raise self.error


def test_there_is_nothing_to_tell_without_observers():
    observers = Observers()
    assert observers.hooks == frozenset()
    observers.tell("finished", TASK)


def test_each_is_told_and_hooks_that_are_not_overridden_do_nothing():
    observers, one, two = Observers(), Seeing(), Seeing()
    observers.add(one)
    observers.add(two)
    observers.tell("finished", TASK)
    for hook in ("queued", "held", "dispatched", "dropped", "given_back", "mode_changed"):
        observers.tell(hook, TASK)
    assert one.seen == two.seen == [TASK]
    observers.remove(one)
    observers.tell("finished", TASK)
    assert (len(one.seen), len(two.seen)) == (1, 2)


def test_the_worker_makes_nothing_for_hooks_that_nobody_has():
    observers, one = Observers(), Seeing()
    observers.add(Observer())
    assert observers.hooks == frozenset()
    observers.add(one)
    one.held = lambda task: None
    observers.add(Observer())  # looked at anew
    assert observers.hooks == {"finished", "held"}
    observers.remove(one)
    assert observers.hooks == frozenset()


@pytest.mark.parametrize("error", [ValueError("theirs"), SystemExit(1), CancelledError()])
def test_one_that_raises_is_logged_goes_on_being_called_and_hides_nothing(caplog, error):
    observers, bad, good = Observers(), Raising(error), Seeing()
    observers.add(bad)
    observers.add(good)
    with caplog.at_level(logging.ERROR):
        for _ in range(1_000):
            observers.tell("finished", TASK)
    assert bad.calls == observers.failures == len(good.seen) == 1_000
    (record,) = caplog.records  # and not a thousand
    assert "Raising.finished" in record.getMessage()
    assert record.exc_info is not None


@pytest.mark.parametrize("signal", [WorkerTerminate(1), WorkerShutdown(0), KeyboardInterrupt()])
def test_a_signal_that_ends_the_worker_is_not_taken_for_its_failure(signal):
    observers = Observers()
    observers.add(Raising(signal))
    with pytest.raises(type(signal)):
        observers.tell("finished", TASK)
    assert observers.failures == 0


@pytest.mark.parametrize("wrong", [object(), Observer, None])
def test_what_is_no_observer_is_refused(wrong):
    with pytest.raises(TypeError, match=r"expected an instance of celery_fair.Observer, got"):
        Observers().add(wrong)


def test_durations_of_a_task_are_known_as_far_as_it_has_come():
    assert TASK.wait_seconds is None
    assert TASK.run_seconds is None
    done = TASK._replace(enqueued_at=10.0, started_at=12.0, finished_at=15.5)
    assert (done.wait_seconds, done.run_seconds) == (2.0, 3.5)
    assert done._replace(enqueued_at=13.0).wait_seconds == 0.0
