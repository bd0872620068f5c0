"""`Observer`: hooks for users' own code, and what they are told."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any, NamedTuple

from celery.exceptions import WorkerShutdown, WorkerTerminate

from celery_fair.policy.kinds import Kind

logger = logging.getLogger(__name__)

SILENT_SECONDS = 30.0
"""How long failures of one observer's hook are only counted after one was logged."""


class TaskInfo(NamedTuple):
    """One task as far as it has come; times are epoch seconds, ``None`` while not reached.

    ``name`` and ``id`` are Celery's. ``mode`` is the gate's when the task was dispatched, and
    ``outcome`` a word of `celery_fair.observe.endings`. Arguments and results are never here.
    """

    kind: Kind
    name: str
    id: str
    queue: str | None = None
    enqueued_at: float | None = None
    """When it could first run (publish, or ETA), on its publisher's clock."""
    pulled_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    mode: str | None = None
    outcome: str | None = None

    @property
    def wait_seconds(self) -> float | None:
        """From when it could run to its start; a publisher whose clock is ahead gives 0."""
        if self.enqueued_at is None or self.started_at is None:
            return None
        return max(self.started_at - self.enqueued_at, 0.0)

    @property
    def run_seconds(self) -> float | None:
        """How long it had its slot."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


class GateChange(NamedTuple):
    """A change of the gate's mode: when (epoch seconds), to what, and why."""

    at: float
    mode: str
    cause: str
    reason: str


class Observer:
    """Hooks that do nothing: override those you want, and give it to ``Fair.add_observer``.

    Called in the worker's main process, in its loop, which waits for them: hand on, don't compute.
    Where there is no event loop (gevent, eventlet, solo) it may be another greenlet or thread.
    `queued` is called where a task is published. A hook that raises is logged and counted, and is
    called again the next time; the worker is not harmed.
    """

    def queued(self, task: TaskInfo) -> None:
        """A task was published, by this process."""

    def held(self, task: TaskInfo) -> None:
        """This worker has a task, and no slot for it yet."""

    def dispatched(self, task: TaskInfo) -> None:
        """A task was given to the pool."""

    def finished(self, task: TaskInfo) -> None:
        """A task has left its slot; ``outcome`` says how."""

    def dropped(self, task: TaskInfo) -> None:
        """A task ended without a slot: revoked, expired or timed out (``outcome``)."""

    def given_back(self, task: TaskInfo) -> None:
        """A held task went back to the broker, where others may run it."""

    def mode_changed(self, change: GateChange) -> None:
        """The gate of this worker opens, or protects interactive tasks."""


HOOKS = tuple(name for name in vars(Observer) if not name.startswith("_"))


class Observers:
    """The observers of one app, and which hooks any of them has; the hot path asks for that."""

    def __init__(self) -> None:
        self.hooks: frozenset[str] = frozenset()
        self._observers: tuple[Observer, ...] = ()
        self._logged: dict[tuple[int, str], float] = {}
        self.failures = 0

    def add(self, observer: Observer) -> None:
        if not isinstance(observer, Observer):
            raise TypeError(
                f"expected an instance of celery_fair.Observer, got {observer!r}: "
                f"derive from it and override the hooks you want"
            )
        self._set((*self._observers, observer))

    def remove(self, observer: Observer) -> None:
        self._set(tuple(one for one in self._observers if one is not observer))

    def _set(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self.hooks = frozenset(hook for one in observers for hook in HOOKS if _overrides(one, hook))

    def tell(self, hook: str, what: Any) -> None:
        """Call that hook of each; whatever one raises stays its own trouble."""
        for observer in self._observers:
            try:
                getattr(observer, hook)(what)
            except (KeyboardInterrupt, WorkerShutdown, WorkerTerminate):
                raise  # a signal that came meanwhile
            except BaseException:  # SystemExit, CancelledError, a greenlet's timeout
                self._failed(observer, hook)

    def _failed(self, observer: Observer, hook: str) -> None:
        self.failures += 1
        now, key = monotonic(), (id(observer), hook)
        if now - self._logged.get(key, -SILENT_SECONDS) < SILENT_SECONDS:
            return
        self._logged[key] = now
        logger.exception(
            "celery-fair: %s.%s of an observer failed (%d failures so far; the next of this hook "
            "within %g s are only counted)",
            type(observer).__name__,
            hook,
            self.failures,
            SILENT_SECONDS,
        )


def _overrides(observer: Observer, hook: str) -> bool:
    return getattr(getattr(observer, hook), "__func__", None) is not getattr(Observer, hook)
