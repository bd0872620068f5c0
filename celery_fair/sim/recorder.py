"""What a simulation tells while it runs: everything, or sums that stay small."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Protocol

from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.sim.histogram import Histogram
from celery_fair.sim.task import Stream, Task

MOST_TENANTS = 1000
"""Of each of so many tenants waits are kept apart; those who come later count together."""
OTHERS = "(others)"
BINS = 60
"""The window is drawn in so many parts."""
SAMPLES = 20 * BINS
"""At so many instants of the window the slots in use are counted, for that drawing."""


class Recorder(Protocol):
    """Hears of each start and each end, once."""

    def start(self, task: Task, now: float) -> None:
        """A task takes a slot, for the first time or again."""

    def stop(self, task: Task, now: float, *, done: bool) -> None:
        """It gives it back: it has ended, or will go on later."""

    def left(self, tasks: Iterable[Task], until: float) -> None:
        """The simulation ends, and these, in workers or on their way, have not."""

    def waits(self, source: Stream | Task, published: float, number: int, until: float) -> None:
        """And so many of these still wait at the broker."""

    def sample(self) -> None:
        """It is time to count the slots in use."""


@dataclass(slots=True)
class OfKind:
    """Of one kind: how many, how long they waited, and the slot-seconds they had in the window."""

    waits: Histogram = field(default_factory=Histogram)
    started: int = 0
    ended: int = 0
    ended_in_window: int = 0
    never_started: int = 0
    """Of those published in the window; they count as having waited until the very end."""
    slot_seconds: float = 0.0
    interrupted: int = 0
    """Runs that a yield, or a worker's death, has ended before the task."""
    tenants: dict[str, Histogram] = field(default_factory=dict)


class Statistics:
    """Sums and histograms: of any number of tasks in the same few kilobytes."""

    def __init__(self, start: float, end: float, *, tenants: bool = False) -> None:
        self.start_at, self.end_at = start, end
        self.of = {kind: OfKind() for kind in KINDS}
        self._tenants = tenants
        self.samples: dict[Kind, list[int]] = {kind: [] for kind in KINDS}
        self._last_batch_start = start
        self.longest_batch_gap = 0.0

    def start(self, task: Task, now: float) -> None:
        kind = task.kind
        found = self.of[kind]
        found.started += 1
        if kind == BATCH:
            self._gap(now)
        if task.waited_until == math.inf:
            task.waited_until = now
            if self.start_at <= task.published < self.end_at:
                if self._tenants:
                    self._waited(found, task, now - task.published)
                else:
                    found.waits.add(now - task.published)

    def stop(self, task: Task, now: float, *, done: bool) -> None:
        found = self.of[task.kind]
        began = task.started
        upto = now if now < self.end_at else self.end_at
        since = began if began > self.start_at else self.start_at
        if upto > since:
            found.slot_seconds += upto - since
        if not done:
            found.interrupted += 1
            return
        found.ended += 1
        if self.start_at <= now <= self.end_at:
            found.ended_in_window += 1

    def left(self, tasks: Iterable[Task], until: float) -> None:
        for task in tasks:
            found = self.of[task.kind]
            if task.started < math.inf:
                found.slot_seconds += max(self.end_at - max(task.started, self.start_at), 0.0)
            elif task.waited_until == math.inf and self.start_at <= task.published < self.end_at:
                found.never_started += 1
                self._waited(found, task, until - task.published)
        self._gap(self.end_at)

    def waits(self, source: Stream | Task, published: float, number: int, until: float) -> None:
        if isinstance(source, Task):
            self.left([source], until)
        elif self.start_at <= published < self.end_at:
            found = self.of[source.kind]
            found.never_started += number
            self._waited(found, source, until - published, number)

    def sample(self) -> None:
        for kind, found in self.of.items():
            self.samples[kind].append(found.started - found.ended - found.interrupted)

    @property
    def busy(self) -> dict[Kind, list[float]]:
        """How many slots a kind had on average, in each part of the window."""
        width = SAMPLES // BINS
        return {
            kind: [fmean(seen[at : at + width]) for at in range(0, len(seen) - 1, width)]
            for kind, seen in self.samples.items()
        }

    def _waited(self, found: OfKind, task: Stream | Task, seconds: float, number: int = 1) -> None:
        found.waits.add(seconds, number)
        if self._tenants:
            name = task.tenant or ""
            if name not in found.tenants:
                if len(found.tenants) >= MOST_TENANTS:
                    name = OTHERS
                found.tenants.setdefault(name, Histogram())
            found.tenants[name].add(seconds, number)

    def _gap(self, now: float) -> None:
        at = now if now < self.end_at else self.end_at
        gap = at - self._last_batch_start
        if gap > 0:
            self._last_batch_start = at
            if gap > self.longest_batch_gap:
                self.longest_batch_gap = gap


class Everything:
    """Keeps each task: for tests of single ones, and loads of thousands."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.cut_short: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)

    def start(self, task: Task, now: float) -> None:
        if task.waited_until == math.inf:
            task.waited_until = now
            self.tasks.append(task)

    def stop(self, task: Task, now: float, *, done: bool) -> None:
        if done:
            task.finished = now
            task.endings += 1

    def left(self, tasks: Iterable[Task], until: float) -> None:
        self.tasks += (task for task in tasks if task.waited_until == math.inf)
        self._sort()

    def waits(self, source: Stream | Task, published: float, number: int, until: float) -> None:
        if isinstance(source, Task):
            self.left([source], until)
        else:
            self.tasks += (source.make(published) for _ in range(number))
            self._sort()

    def sample(self) -> None:
        """Each task tells when it had a slot."""

    def _sort(self) -> None:
        self.tasks.sort(key=lambda task: (task.published, task.number))
