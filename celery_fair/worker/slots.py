"""Slots: a taken one is an object, given back exactly once, whatever happens to its task."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any

from celery_fair.observe.endings import SUCCEEDED, TIME_LIMIT
from celery_fair.policy.kinds import Kind
from celery_fair.policy.load import Mode
from celery_fair.policy.tenants import Turn
from celery_fair.worker.fatal import Fatal
from celery_fair.worker.outcomes import WITHDRAWN, outcome_of


class Slot:
    """One place in the pool, taken by one dispatch of one request.

    Keyed by the dispatch, not by the task id: a retry reuses the id, and two copies may run.
    """

    __slots__ = (
        "_slots", "finished_at", "kind", "mode", "outcome", "ready_at", "received_at",
        "request", "started_at", "turn", "wait_seconds",
    )  # fmt: skip

    def __init__(
        self,
        slots: Slots,
        kind: Kind,
        request: Any,
        started_at: float,
        received_at: float,
        ready_at: float | None,
        mode: Mode,
    ) -> None:
        self._slots = slots
        self.kind = kind
        self.request = request
        self.started_at = self.finished_at = started_at
        self.received_at = received_at
        self.ready_at = ready_at
        self.wait_seconds: float | None = None
        self.mode = mode
        """The gate's as this was taken."""
        self.outcome: str | None = None
        self.turn: Turn | None = None
        """What its tenant is charged, where tenants take turns."""

    def release(self, *_: Any) -> None:
        """Give the slot back; safe from any thread, and without effect the second time."""
        slots = self._slots
        try:
            del slots.taken[self]  # atomic: of two threads one gets the KeyError
        except KeyError:
            return
        self.finished_at = monotonic()
        slots.finished.append(self)
        slots.on_free()

    def note(self, returned: Any = None, *_: Any) -> None:
        """Keep how the task has ended, of what a pool's callback is given; never raises."""
        try:
            failed, _, run_seconds = returned
            if not failed and run_seconds is not None:
                self.outcome = SUCCEEDED  # as nearly all do
                return
        except Exception:
            pass  # no triple: something went wrong around the task
        request = self.request
        if request is not None:
            self.outcome = outcome_of(returned, request)

    def end(self, returned: Any = None, *_: Any) -> None:
        """Give back the slot of a task that has returned."""
        self.note(returned)
        self.release()

    def withdraw(self) -> None:
        """Give back the slot of a task that the pool was never given: it was dropped."""
        if self in self._slots.taken:  # else it ran, and was revoked after its end
            self.outcome = WITHDRAWN
            self.release()

    def overrun(self, soft: bool, *_: Any) -> None:
        """Its time limit has come, where that is all that is told of its end."""
        if not soft:
            self.outcome = TIME_LIMIT

    def fail(self, returned: Any = None, *_: Any) -> None:
        """Give back the slot of a task that the pool has ended, with its child mostly."""
        request = self.request
        self.note(returned)
        self.release()
        if request is not None:
            self._slots.fatal.note(request)


class Slots:
    """The slots in use; those given back wait in ``finished`` for the loop to take note of them."""

    def __init__(self, on_free: Callable[[], None] = lambda: None) -> None:
        self.taken: dict[Slot, None] = {}
        self.on_free = on_free
        self.finished: deque[Slot] = deque()
        self.audited = 0
        self.fatal = Fatal()
        self._suspects: set[Slot] = set()
        self._ended: set[Any] = set()

    def __len__(self) -> int:
        return len(self.taken)

    def __iter__(self) -> Iterator[Slot]:
        return iter(list(self.taken))  # a pool's thread may give one back meanwhile

    def take(
        self,
        kind: Kind,
        request: Any,
        now: float,
        received_at: float = 0.0,
        ready_at: float | None = None,
        mode: Mode = Mode.OPEN,
    ) -> Slot:
        """``ready_at`` is in epoch seconds, and ``None`` if nobody knows."""
        slot = request.fair_slot = Slot(self, kind, request, now, received_at, ready_at, mode)
        self.taken[slot] = None
        return slot

    def oldest_started_at(self, kind: Kind) -> float | None:
        return min(
            (slot.started_at for slot in list(self.taken) if slot.kind == kind), default=None
        )

    def release_unaccepted(self) -> None:
        """Free the slots of jobs that ``pool.flush`` has dropped without calling anybody back."""
        for slot in list(self.taken):
            if slot.request.time_start is None:
                slot.release()

    def audit(self, is_known: Callable[[Any], bool]) -> list[Any]:
        """Free the slots of requests that Celery no longer counts as running or reserved.

        Only those that the audit before has found already: a killed child is still being reaped for
        a second or two after Celery has closed its books. Returns the requests.
        """
        unknown = {slot for slot in list(self.taken) if not is_known(slot.request)}
        leaked = {slot: slot.request for slot in unknown & self._suspects}
        self._suspects = unknown.difference(leaked)
        for slot in leaked:
            self.audited += 1
            slot.release()
        return list(leaked.values())

    def ended(self, known: Iterable[Any]) -> list[Any]:
        """Return the requests that Celery still counts, though their slot was given back.

        Those that the call before has found already, too. A task that raises ``SystemExit`` in a
        thread or a greenlet is one: Celery's own callback fails on it, and counts it for ever.
        """
        ended = {request for request in known if self._has_left(request)}
        certain = ended & self._ended
        self._ended = ended - certain
        return list(certain)

    def _has_left(self, request: Any) -> bool:
        slot = request.__dict__.get("fair_slot")
        return slot is not None and slot not in self.taken
