"""What a simulation measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from celery_fair.policy import BATCH, KINDS, Kind
from celery_fair.sim.task import Task


@dataclass(slots=True)
class Result:
    """All tasks of a run; its measures look at ``[start, end)``, as an observer outside would."""

    start: float
    end: float
    observed_until: float
    slots: int
    tasks: list[Task] = field(default_factory=list)
    mode_changes: int = 0
    cut_short: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    def of(self, kind: Kind) -> list[Task]:
        """The tasks of one kind, in order of publishing."""
        return [task for task in self.tasks if task.kind == kind]

    def waits(self, kind: Kind) -> list[float]:
        """Sorted seconds from publish to start; what never started waited until the very end."""
        return sorted(
            min(task.started, self.observed_until) - task.published
            for task in self.of(kind)
            if self.start <= task.published < self.end
        )

    def wait(self, kind: Kind, quantile: float = 0.95) -> float:
        """A quantile of the waits, ``nan`` if nothing was published in the window."""
        waits = self.waits(kind)
        return waits[max(math.ceil(quantile * len(waits)), 1) - 1] if waits else math.nan

    def most_at_once(self) -> int:
        """The most tasks that ran at the same time."""
        ran = [task for task in self.tasks if task.started < math.inf]
        # At one instant ends come before starts.
        edges = sorted([(t.started, 1) for t in ran] + [(t.finished, -1) for t in ran])
        return max(accumulate(step for _, step in edges), default=0)

    def rate(self, kind: Kind = BATCH) -> float:
        """Tasks of the kind that finished in the window, a second."""
        done = sum(self.start <= task.finished <= self.end for task in self.of(kind))
        return done / (self.end - self.start)

    def slot_seconds(
        self, kind: Kind, start: float | None = None, end: float | None = None
    ) -> float:
        """Slot-seconds that the kind got between two times (the window)."""
        start = self.start if start is None else start
        end = self.end if end is None else end
        return sum(
            max(min(task.finished, end) - max(task.started, start), 0.0)
            for task in self.of(kind)
            if task.started < end
        )

    def share(self, kind: Kind = BATCH) -> float:
        """The part of the window's slot-seconds that the kind got."""
        return self.slot_seconds(kind) / (self.slots * (self.end - self.start))

    @property
    def utilisation(self) -> float:
        """The part of the window's slot-seconds in which anything ran."""
        return sum(self.share(kind) for kind in KINDS)

    def longest_gap(self, kind: Kind = BATCH) -> float:
        """The longest time in the window without a start of the kind."""
        starts = sorted(t.started for t in self.of(kind) if self.start <= t.started < self.end)
        return max(b - a for a, b in pairwise([self.start, *starts, self.end]))
