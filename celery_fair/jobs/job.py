"""`Job`: what one can do with a job, from any process that reaches its store."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from celery_fair.errors import StateAway
from celery_fair.jobs.items import readable
from celery_fair.jobs.progress import ENDED, Failure, Progress

if TYPE_CHECKING:
    from celery_fair.jobs.store import JobStore

FIRST_POLL_SECONDS: Final = 0.05
LAST_POLL_SECONDS: Final = 2.0

OUTAGE_SECONDS: Final = 60.0
"""Who waits for a job goes on while its store can't be asked for no longer than this."""


class Producer(Protocol):
    """What appends the items of a job, in this process."""

    def wait(self, timeout: float | None = None) -> None:
        """Return when all are appended; raises what it raised, or `TimeoutError`."""


class Jobs(Protocol):
    """The jobs of an app: their store, and what publishes for it."""

    @property
    def store(self) -> JobStore:
        """Where they are kept; raises `SettingsError` where there is no Redis for it."""

    def start(self, id: str) -> None:
        """Publish tickets for a job that has work again."""


class Job:
    """A handle to a job; it asks nothing by itself, and each method asks anew.

    All raise `JobNotFound` for a job that is not there (any more), and `StateAway`.
    """

    def __init__(self, jobs: Jobs, id: str, producer: Producer | None = None) -> None:
        self.id = id
        self._jobs = jobs
        self._producer = producer

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def progress(self) -> Progress:
        """Return how far it is, in one round trip."""
        return self._jobs.store.progress(self.id)

    def pause(self, reason: str = "paused") -> bool:
        """Let no chunk start; those that run stop within seconds. False if the job has ended."""
        return self._jobs.store.pause(self.id, reason)

    def resume(self) -> bool:
        """Go on, and count failures anew against ``max_failures``; False if the job has ended."""
        resumed = self._jobs.store.resume(self.id)
        if resumed:
            self._jobs.start(self.id)
        return resumed

    def cancel(self, reason: str = "cancelled") -> bool:
        """End it for good: what has not started is dropped; False if the job has ended."""
        return self._jobs.store.cancel(self.id, reason)

    def retry_failed(self) -> int:
        """Have the failed items tried again, and only those; return how many, 0 if cancelled."""
        count = self._jobs.store.retry_failed(self.id)
        if count:
            self._jobs.start(self.id)
        return count

    def failures(self, start: int = 0, count: int = 100) -> Sequence[Failure]:
        """Return failed items in the order of their indices; ``start`` counts failures."""
        return self._jobs.store.failures(self.id, start, count)

    def results(self, start: int = 0, count: int = 100) -> Mapping[int, Any]:
        """Return results by index, of the items from index ``start`` to ``start + count``.

        Empty unless it was submitted with ``results=True``; items that failed have none.
        """
        found = self._jobs.store.results(self.id, start, count)
        return {index: readable(result) for index, result in found.items()}

    def wait(self, timeout: float | None = None) -> Progress:
        """Wait until it has ended, and return how; it never ends while it is paused.

        Raises `TimeoutError`. It asks the store now and then, and so ends up to two seconds late;
        while the store can't be asked it goes on for a minute.
        """
        return self._poll(lambda found: found.state in ENDED, timeout, "ended")

    def wait_submitted(self, timeout: float | None = None) -> Progress:
        """Wait until all its items are in the store; from then on no producer is needed.

        Raises what the producer raised, where it runs in this process, and `TimeoutError`.
        """
        if self._producer is not None:
            self._producer.wait(timeout)
            return self.progress()
        return self._poll(lambda found: not found.submitting, timeout, "been submitted")

    def forget(self) -> None:
        """Drop all that is kept of it before its time; raises `JobConflict` unless it has ended."""
        self._jobs.store.forget(self.id)

    def _poll(
        self, is_so: Callable[[Progress], bool], timeout: float | None, what: str
    ) -> Progress:
        end = None if timeout is None else time.monotonic() + timeout
        pause, answered_at, found = FIRST_POLL_SECONDS, time.monotonic(), None
        while True:
            try:
                found = self.progress()
                answered_at = time.monotonic()
            except StateAway:  # a restart is no reason to give up what may have waited for hours
                if time.monotonic() - answered_at > OUTAGE_SECONDS:
                    raise
            if found is not None and is_so(found):
                return found
            left = pause if end is None else end - time.monotonic()
            if left <= 0:
                raise TimeoutError(_not_yet(self.id, found, what, timeout))
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LAST_POLL_SECONDS)


def _not_yet(id: str, found: Progress | None, what: str, timeout: float | None) -> str:
    said = f"job {id!r} has not {what} within {timeout:g} s"
    if found is None:
        return f"{said}, as far as is known: {StateAway()}"
    of = "" if found.total is None else f" of {found.total}"
    return (
        f"{said}: it is {found.state}, and {found.done + found.failed}{of} items are finished; "
        "wait longer, or see the reason in its progress"
    )
