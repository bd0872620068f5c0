"""Fails tasks that have waited for too long: results, errbacks and chords, beside the loop."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from celery_fair.errors import QueueTimeout, TaskRefused
from celery_fair.resources.uses import spare_this_thread
from celery_fair.worker import internals
from celery_fair.worker.lanes import Held, Lane

logger = logging.getLogger(__name__)

FORK_SECONDS: Final = 1.0
"""How long a fork waits for what is under way, at the most: a result backend may hang."""

_working = threading.RLock()


class TimedOut(NamedTuple):
    """A task that will not be run."""

    lane: Lane
    held: Held
    error: QueueTimeout | TaskRefused


class Failing:
    """One thread that does what ends a task; the loop acknowledges it after that.

    Not in the loop, which a slow result backend or a task's own ``on_failure`` would hold up. Not
    in the pool, since what isn't run must not take a slot. A worker killed in between leaves the
    message unacknowledged: the next one fails it again, as a task with ``acks_late`` would be.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._todo: queue.SimpleQueue[TimedOut | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.done: deque[TimedOut] = deque()
        """Failed, and yet to be acknowledged by the loop."""

    def fail(self, timed_out: TimedOut) -> None:
        """Have it failed soon; called by the loop, as ``settled`` and ``stop`` are."""
        if self._thread is None or not self._thread.is_alive():
            self._begin()
        self._todo.put(timed_out)

    def _begin(self) -> None:
        _guard_forks()
        # A queue of its own: the thread before may still be in the midst of its last.
        self._todo = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, args=[self._todo], name="celery-fair-failing", daemon=True
        )
        self._thread.start()

    def settled(self) -> list[TimedOut]:
        """Take those that have been failed since the last time."""
        settled = []
        while self.done:
            settled.append(self.done.popleft())
        return settled

    def stop(self, seconds: float) -> None:
        """End after what is under way, and wait so long for it; the rest is left to the broker."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with contextlib.suppress(queue.Empty):
            while True:
                self._todo.get_nowait()
        self._todo.put(None)
        thread.join(seconds)

    def _run(self, todo: queue.SimpleQueue[TimedOut | None]) -> None:
        spare_this_thread()
        for timed_out in iter(todo.get, None):
            try:
                self._run_one(timed_out)
            finally:
                self.done.append(timed_out)
                self._wake()

    def _run_one(self, timed_out: TimedOut) -> None:
        global _hangs
        if not timed_out.lane.alive:
            return  # the broker has given it to another worker
        request = timed_out.held.request
        with _working:
            try:
                request.task.app.set_current()  # by thread: a team's hooks may look for it
                internals.fail_unrun(request, timed_out.error)
            except BaseException:  # SystemExit of a hook, say: the next must be failed all the same
                logger.exception(
                    "celery-fair: %s[%s] timed out in its queue, and that can't be told: its "
                    "result backend, or whatever its failure calls, has failed itself",
                    request.name,
                    request.id,
                )
        _hangs = False


@contextlib.contextmanager
def not_amid_fork() -> Iterator[None]:
    """Have no child forked meanwhile: for what another thread does with a client library."""
    _guard_forks()
    with _working:
        yield


def _guard_forks() -> None:
    """Have no child forked while a lock of a client library may be held here: it stays held there.

    Prefork forks when it likes: as autoscale grows it, or when a child has done its share.
    """
    global _guarded
    if not _guarded and hasattr(os, "register_at_fork"):
        _guarded = True
        os.register_at_fork(
            before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
        )


_guarded = False
_hangs = False
"""Whether a fork has waited in vain: the next doesn't wait, until something is done."""
_forking = threading.local()


def _before_fork() -> None:
    global _hangs
    _forking.waited = _working.acquire(timeout=0 if _hangs else FORK_SECONDS)
    _hangs = not _forking.waited


def _after_fork() -> None:
    if _forking.waited:
        _working.release()


def _after_fork_in_child() -> None:
    global _working
    _working = threading.RLock()  # whoever has held it isn't there
