"""Tasks that have waited for too long: decided once, in the loop, and never run after that."""

from __future__ import annotations

from time import monotonic

from celery_fair.errors import QueueTimeout, TaskRefused
from celery_fair.observe.counts import Counts
from celery_fair.observe.endings import REFUSED, TIMED_OUT
from celery_fair.observer import Observers
from celery_fair.worker import internals, telling
from celery_fair.worker.failing import Failing, TimedOut
from celery_fair.worker.lanes import Held, Lane


class TimingOut:
    """Has what is overdue failed without a slot, and settles it with the broker after that."""

    def __init__(self, failing: Failing, counts: Counts) -> None:
        self._failing = failing
        self._counts = counts
        self.observers = Observers()

    def end(self, lane: Lane, held: Held, now: float) -> None:
        """Fail a request that is overdue, and in its lane no longer."""
        request, deadline = held.request, held.deadline
        if deadline is None or (internals.may_be_revoked(request) and request.revoked()):
            return
        waited_seconds = round(deadline.waited_seconds(now), 3)
        self._failing.fail(
            TimedOut(lane, held, QueueTimeout(lane.kind, waited_seconds, deadline.seconds))
        )
        lane.failing += 1

    def refuse(self, lane: Lane, held: Held, error: TaskRefused) -> None:
        """Fail a request that must not run, and is in its lane no longer."""
        self._failing.fail(TimedOut(lane, held, error))
        lane.failing += 1

    @property
    def has_failed(self) -> bool:
        """Whether there is something to settle."""
        return bool(self._failing.done)

    def settle(self) -> None:
        """Acknowledge what has been failed meanwhile; in the thread that owns the channels."""
        now = monotonic()
        for lane, held, error in self._failing.settled():
            lane.failed(now)
            if not lane.alive:
                internals.forget_request(held.request)
                continue
            internals.settle_unrun(held.request, error)
            ending = REFUSED if isinstance(error, TaskRefused) else TIMED_OUT
            self._counts.dropped[lane.kind][ending] += 1
            if "dropped" in self.observers.hooks:
                self.observers.tell("dropped", telling.of_held(lane.kind, held, ending))

    def stop(self, seconds: float) -> None:
        """The connection, or the worker, ends; wait so long for what is being failed."""
        self._failing.stop(seconds)
        self.settle()
