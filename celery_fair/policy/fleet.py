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
    unpaid_batch_seconds: float = 0.0
    """Slot-seconds of batch counted for workers since their last word, who turned out dead."""
    fresh: bool = True
    """Whether words are young enough to act on what runs elsewhere, or only on who is there."""


def fleet_view(
    me: Member, others: Iterable[Member], unpaid_batch_seconds: float = 0.0, *, fresh: bool = True
) -> FleetView:
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
        unpaid_batch_seconds=unpaid_batch_seconds,
        fresh=fresh,
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


@dataclass(frozen=True, slots=True)
class Stretch:
    """The slots of the line that a kind may have, from ``begin`` on, and this worker's place."""

    segment: Segment
    begin: int = 0
    is_certain: bool = True
    """False where it isn't known whether the other workers still are where they were."""


class Place:
    """Where this worker stands among those in view, and what the others run.

    The others' interactive tasks are smoothed over a few seconds: a word is a snapshot, and a
    snapshot of short tasks, kept until the next word, would hold slots free for nothing.

    Out of sight the place is kept: a reserve of workers that no longer see each other would be
    gone the moment that each of them took itself for the whole.
    """

    __slots__ = (
        "_interactive",
        "_seen_at",
        "cut_off",
        "in_sight",
        "last_batch",
        "others_batch",
        "others_interactive",
        "segment",
        "view",
    )

    _MEMORY_SECONDS = 3.0

    def __init__(self, slots: int) -> None:
        self.view: FleetView | None = None
        self.in_sight = True
        self.cut_off = False
        self.others_batch = self.others_interactive = self.last_batch = 0
        self._interactive = 0.0
        self._seen_at: float | None = None
        self.resize(slots)

    def see(
        self, view: FleetView | None, now: float, slots: int, interactive: int, batch: int
    ) -> None:
        """Take in a view; ``interactive`` and ``batch`` are what runs here, part of its sums."""
        self.view = view
        self.in_sight, self.cut_off = True, False
        if view is None:
            self.others_batch = self.others_interactive = self.last_batch = 0
            self._seen_at = None
        else:
            self.last_batch = max(0, view.running_batch - batch)
            self.others_batch = self.last_batch if view.fresh else 0
            self._smooth(max(0, view.running_interactive - interactive), now)
        self.resize(slots)

    def lose_sight(self, cut_off: bool) -> None:
        """Keep the place and the interactive tasks seen last; the others' batch is unknown."""
        self.in_sight = False
        self.cut_off = cut_off
        self.others_batch = 0

    def resize(self, slots: int) -> None:
        """This worker has so many slots from now on."""
        self.segment = Segment.of(slots, self.view)

    def answers_for(self, guaranteed: int) -> float:
        """The slots for whose guaranteed batch this worker cares: the fleet's if it knows them.

        A worker that is cut off cares for its own: the others, who don't see it, for theirs. Where
        nobody sees anybody those that own guaranteed slots care for their part of the whole, and
        the rest for their own slots, though much later (`trusts`).
        """
        segment = self.segment
        if self.knows:
            return segment.total
        part = 0 if self.cut_off else segment.tail(guaranteed)
        return segment.total * part / guaranteed if part else segment.last - segment.first

    @property
    def knows(self) -> bool:
        """Whether it is known what runs elsewhere: others are in sight, and their words young."""
        return self.in_sight and (self.view is None or self.view.fresh)

    @property
    def trusts(self) -> bool:
        """Whether this worker leaves the guarantee to others of whom it does not know enough."""
        return not self.knows and not self.cut_off

    @property
    def others_free(self) -> int:
        """Free slots of the other workers, as far as they were known last."""
        segment = self.segment
        others = segment.total - (segment.last - segment.first)
        return max(0, others - self.others_interactive - self.last_batch)

    def _smooth(self, interactive: int, now: float) -> None:
        if self._seen_at is None:
            self._interactive = interactive
        else:
            kept = math.exp(-max(now - self._seen_at, 0.0) / self._MEMORY_SECONDS)
            self._interactive = self._interactive * kept + interactive * (1 - kept)
        self._seen_at = now
        self.others_interactive = int(self._interactive + 0.5)
