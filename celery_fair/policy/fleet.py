"""The workers that serve the same queues, seen as one line of slots."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """A worker's last word to the others. `Policy.member` makes one."""

    name: str
    slots: int
    running_interactive: int
    running_batch: int
    interactive_rate: float = 0.0
    interactive_mean_seconds: float = 0.0
    batch_mean_seconds: float = 0.0
    batch_finished: int = 0


@dataclass(frozen=True, slots=True)
class FleetView:
    """All workers that serve the same queues, this one included.

    ``running_*`` are sums: the others as of their last word, this one as of now. ``slots_before``
    counts the slots of the workers that sort before this one by name.

    The optional fields are what the reserve needs and what a worker of one slot cannot learn
    alone: one that only runs interactive tasks never sees how long batch takes, and one that
    runs batch sees few arrivals. ``None`` falls back to this worker's own estimates.
    """

    workers: int
    slots: int
    slots_before: int
    running_interactive: int
    running_batch: int
    interactive_rate: float | None = None
    interactive_mean_seconds: float | None = None
    batch_mean_seconds: float | None = None
    batch_finished: int | None = None


def fleet_view(me: Member, others: Iterable[Member]) -> FleetView:
    """Add up the last words of the other workers and this one's own, as of now."""
    members = [me, *(other for other in others if other.name != me.name)]
    return FleetView(
        workers=len(members),
        slots=sum(m.slots for m in members),
        slots_before=sum(m.slots for m in members if m.name < me.name),
        running_interactive=sum(m.running_interactive for m in members),
        running_batch=sum(m.running_batch for m in members),
        interactive_rate=sum(m.interactive_rate for m in members),
        interactive_mean_seconds=_mean(m.interactive_mean_seconds for m in members),
        batch_mean_seconds=_mean(m.batch_mean_seconds for m in members),
        batch_finished=sum(m.batch_finished for m in members),
    )


def _mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if value > 0]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class Segment:
    """This worker's place ``[first, last)`` in the fleet's line of ``total`` slots.

    The reserve lies at the head of the line, the guaranteed batch slots at its end: a worker's part
    of either is the overlap, all of it where it is alone.
    """

    first: int
    last: int
    total: int

    @classmethod
    def of(cls, slots: int, view: FleetView | None) -> Segment:
        """Where ``slots`` lie in the line; a view that knows less than this worker has grows."""
        if view is None:
            return cls(0, slots, slots)
        first = max(view.slots_before, 0)
        return cls(first, first + slots, max(view.slots, first + slots))

    def head(self, count: int) -> int:
        """How many of the first ``count`` slots of the line are this worker's."""
        return max(0, min(self.last, count) - self.first)

    def tail(self, count: int) -> int:
        """How many of the last ``count`` slots of the line are this worker's."""
        return max(0, self.last - max(self.first, self.total - count))

    def distance(self, count: int) -> int:
        """How many slots lie between this worker and the last ``count`` slots, plus 1; 0 inside."""
        return 0 if self.tail(count) else self.total - count - self.last + 1


class Place:
    """Where this worker stands among those in view, and what the others run.

    The others' interactive tasks are smoothed over a few seconds: a word is a snapshot, and a
    snapshot of short tasks, kept until the next word, would hold slots free for nothing.
    """

    __slots__ = (
        "_interactive",
        "_seen_at",
        "others_batch",
        "others_interactive",
        "segment",
        "view",
    )

    _MEMORY_SECONDS = 3.0

    def __init__(self, slots: int) -> None:
        self.view: FleetView | None = None
        self.others_batch = self.others_interactive = 0
        self._interactive = 0.0
        self._seen_at: float | None = None
        self.resize(slots)

    def see(
        self, view: FleetView | None, now: float, slots: int, interactive: int, batch: int
    ) -> None:
        """Take in a view; ``interactive`` and ``batch`` are what runs here, part of its sums."""
        self.view = view
        if view is None:
            self.others_batch = self.others_interactive = 0
            self._seen_at = None
        else:
            self.others_batch = max(0, view.running_batch - batch)
            self._smooth(max(0, view.running_interactive - interactive), now)
        self.resize(slots)

    def resize(self, slots: int) -> None:
        """This worker has so many slots from now on."""
        self.segment = Segment.of(slots, self.view)

    @property
    def others_free(self) -> int:
        """Free slots of the other workers, as of their last word."""
        segment = self.segment
        others = segment.total - (segment.last - segment.first)
        return max(0, others - self.others_interactive - self.others_batch)

    def _smooth(self, interactive: int, now: float) -> None:
        if self._seen_at is None:
            self._interactive = interactive
        else:
            kept = math.exp(-max(now - self._seen_at, 0.0) / self._MEMORY_SECONDS)
            self._interactive = self._interactive * kept + interactive * (1 - kept)
        self._seen_at = now
        self.others_interactive = int(self._interactive + 0.5)
