"""What one worker may start, as computed at a tick."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from celery_fair.policy.fleet import Place
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.load import Load, Mode
from celery_fair.policy.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers that the hot path compares with; slots of this worker.

    ``reserve`` is this worker's part of the fleet's, ``floating`` what the others lack of the sum.
    Of ``usual`` interactive tasks here those that don't run this instant find room as well.
    ``ask_first``: batch that isn't owed waits until the interactive lane has come up empty.
    ``leans``: interactive tasks are left to the fleet's reserve elsewhere.
    """

    reserve: int
    floating: int
    usual: int
    batch_ceiling: int
    owed_ceiling: int
    interactive_ceiling: int
    interactive_capped: bool
    ask_first: bool
    leans: bool

    def interactive_is_full(self, interactive: int) -> bool:
        """Whether interactive has all that its hard ceiling allows: protection would be idle."""
        return self.interactive_capped and interactive >= self.interactive_ceiling

    def kept(self, interactive: int) -> int:
        """Slots that batch leaves free: no more than interactive tasks may still take."""
        missing = self.usual - interactive
        keep = self.floating + missing if missing > 0 else self.floating
        if keep < self.reserve:
            keep = self.reserve
        if self.interactive_capped:
            return min(keep, max(0, self.interactive_ceiling - interactive))
        return keep


def divide(
    settings: PolicySettings,
    serves: Set[Kind],
    load: Load,
    mode: Mode,
    place: Place,
    *,
    guaranteed: int,
    fleet_reserve: int,
    usual: int,
) -> Limits:
    """Divide the fleet's ``guaranteed`` batch slots and its reserve; the rest is this worker's.

    ``usual`` interactive tasks run in the fleet on average, beyond those the reserve accounts for:
    batch takes its slots for much longer than a dip in short tasks lasts. It never cuts into the
    guaranteed slots.
    """
    segment = place.segment
    slots = segment.last - segment.first
    both = len(serves) == len(KINDS)
    usual = min(usual, segment.total - guaranteed - fleet_reserve)
    if place.knows:
        reserve = segment.head(fleet_reserve)
        floating = fleet_reserve - place.others_free
        usual -= place.others_interactive
    else:  # nothing can float: all that is to be kept lies at the head of the line
        reserve = segment.head(fleet_reserve + max(usual, 0))
        floating = usual = 0
    none_kept = max(reserve, floating, floating + usual) <= 0
    leans = both and none_kept and _may_lean(load, mode, fleet_reserve)
    most = settings.interactive_max_slots
    batch_ceiling, owed_ceiling = _batch_ceilings(settings, mode, place, guaranteed, reserve)
    return Limits(
        reserve=reserve,
        floating=floating if both else 0,
        usual=usual if both else 0,
        batch_ceiling=batch_ceiling if BATCH in serves else 0,
        owed_ceiling=owed_ceiling if BATCH in serves else 0,
        interactive_ceiling=_most(slots, most) if INTERACTIVE in serves else 0,
        interactive_capped=most is not None and most < slots,
        ask_first=both and not leans and (none_kept or mode is Mode.PROTECTED),
        leans=leans,
    )


def _most(slots: int, most: int | None) -> int:
    return slots if most is None else min(most, slots)


def _batch_ceilings(
    settings: PolicySettings, mode: Mode, place: Place, guaranteed: int, reserve: int
) -> tuple[int, int]:
    """The ceilings of batch in this mode, and of batch that is owed."""
    segment = place.segment
    slots = segment.last - segment.first
    most = _most(slots, settings.batch_max_slots)
    part = min(segment.tail(guaranteed), most)
    # Beyond the guaranteed slots a worker helps out with one, once the debt exceeds its patience.
    owed = max(0, min(part or 1, most, guaranteed - place.others_batch))
    if mode is Mode.PROTECTED:
        most = min(most, part, slots - reserve)
    return most, owed


def _may_lean(load: Load, mode: Mode, fleet_reserve: int) -> bool:
    """Whether the reserve elsewhere is enough for now.

    A lane that polls while its worker is about to take a long batch task catches interactive
    messages that a free worker of the reserve would have run.
    """
    return (
        mode is Mode.OPEN
        and fleet_reserve > 0
        and load.interactive_wanting == 0
        and bool(load.batch_backlog)
    )
