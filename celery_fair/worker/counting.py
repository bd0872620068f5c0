"""Slots taken and given back: noted one by one, counted all at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from celery_fair.observe.counts import Counts
from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.observe.finished import FinishedTasks
from celery_fair.observe.recent import Recent
from celery_fair.observe.waits import Waits
from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.worker import internals
from celery_fair.worker.outcomes import unsaid
from celery_fair.worker.slots import Slot
from celery_fair.yielding.words import HEADER


class Sink(Protocol):
    """Is shown all slots that have ended, at ticks."""

    def ended(self, slots: Sequence[Slot], to_epoch: float) -> None:
        """Read what it wants, before the slots let go of their requests; never raises."""


class Counting:
    """What a worker's tasks have come to, counted at ticks.

    Not on the path of a task, where each microsecond is a task's: there a slot is put into
    ``started`` as it is taken and into ``ended`` as it has been given back.
    """

    def __init__(self) -> None:
        self.started: list[Slot] = []
        self.ended: list[Slot] = []
        self.first_attempts = 0
        """Batch tasks begun that were no retries, since somebody took this figure."""
        self.waits = Waits()
        self.counts = Counts(OUTCOMES, DROPS)
        self.recent = Recent()
        self.sinks: list[Sink] = []

    def observe(self, observing: bool) -> FinishedTasks | None:
        """Keep what becomes of each task while Celery's own order holds, and no longer."""
        self.sinks[:] = [sink for sink in self.sinks if not isinstance(sink, FinishedTasks)]
        if not observing:
            return None
        found = FinishedTasks(time.time())
        self.sinks.append(found)
        return found

    def settle(self) -> None:
        """Count what has happened since the last time; one thread at a time."""
        started, ended = _taken(self.started), _taken(self.ended)
        if started:
            self._count_starts(started)
        if ended:
            self._count_ends(ended)

    def _count_starts(self, started: list[Slot]) -> None:
        to_epoch = time.time() - monotonic()
        self.first_attempts += sum(slot.kind == BATCH and _is_first(slot) for slot in started)
        for kind in KINDS:
            slots = [slot for slot in started if slot.kind == kind and slot.ready_at is not None]
            if not slots:
                continue
            ats = [slot.started_at for slot in slots]
            waits = [slot.started_at + to_epoch - (slot.ready_at or 0.0) for slot in slots]
            waits = self.waits.add_all(kind, ats, waits)
            for slot, wait_seconds in zip(slots, waits, strict=True):
                slot.wait_seconds = wait_seconds
            self.counts.waits[kind].add(waits)

    def _count_ends(self, ended: list[Slot]) -> None:
        self.recent.ended(ended)
        tasks: dict[tuple[Kind, str], list[Slot]] = {}
        for slot in ended:
            if slot.outcome is None:
                slot.outcome = unsaid(slot.request)
            tasks.setdefault((slot.kind, slot.request.task.name), []).append(slot)
        for sink in self.sinks:
            sink.ended(ended, time.time() - monotonic())
        for slot in ended:
            slot.request = None  # else request and slot keep each other for the collector
        for (kind, task), slots in tasks.items():
            self.counts.end(kind, task, slots)


def _is_first(slot: Slot) -> bool:
    headers = internals.message_of(slot.request).headers
    if not isinstance(headers, dict) or HEADER not in headers:
        return not (isinstance(headers, dict) and headers.get("retries"))
    return False  # it goes on, and was counted as it began


def _taken(slots: list[Slot]) -> list[Slot]:
    """What is in the list now; what another thread adds meanwhile stays."""
    taken = slots[:]
    del slots[: len(taken)]
    return taken
