"""How many messages each lane may hold, so that neither tiny nor long tasks wait."""

from __future__ import annotations

from celery_fair.policy.estimates import RunTime
from celery_fair.policy.limits import Limits
from celery_fair.policy.load import Credits

_SOON_SECONDS = 5.0


class Lookahead:
    """The work that frees its slot within ``lookahead_seconds``, counted in tasks.

    Running tasks free ``running / mean`` slots a second. The product is rounded down: a busy
    worker with one slot must hold nothing, since another worker may be free. ``batch_most`` is what
    batch alone would run within the lookahead, at least 1.
    """

    __slots__ = (
        "_batch_per_slot", "_batch_stuck", "_interactive_per_slot", "_interactive_stuck",
        "_seconds", "batch_most", "cap",
    )  # fmt: skip

    def __init__(self) -> None:
        self._interactive_per_slot = self._batch_per_slot = 0.0
        self._interactive_stuck = self._batch_stuck = 0
        self.cap = 0
        self._seconds = 0.0
        self.batch_most = 1

    def configure(
        self, seconds: float, slots: int, multiplier: int, interactive: RunTime, batch: RunTime
    ) -> None:
        """Take new means; ``slots * multiplier`` limits a lane's lookahead, 0 is no limit."""
        self.cap = slots * multiplier
        self._seconds = seconds
        self._interactive_per_slot = seconds / interactive.mean if interactive.mean else 0.0
        self._batch_per_slot = seconds / batch.mean if batch.mean else 0.0
        self._interactive_stuck = interactive.stuck
        self._batch_stuck = batch.stuck
        self.batch_most = max(1, int(slots * self._batch_per_slot))

    def interactive(self, interactive: int, batch: int, slots: int) -> int:
        """Slots that free within the lookahead, whoever runs in them now.

        Where interactive tasks are shorter than the lookahead all slots without batch count, also
        those idle this instant: else the window would flap with every task.
        """
        own = self._interactive_per_slot
        runs = slots - batch if own >= 1 else interactive
        count = (runs - self._interactive_stuck) * own
        count += (batch - self._batch_stuck) * self._batch_per_slot
        return self._capped(int(count))

    def batch_slot_frees_soon(self, batch: int) -> bool:
        """Whether one of these batch tasks ends within seconds, so that the next may be held.

        Where all guaranteed slots are in use and ``share * slots`` is a whole number, what is lost
        between two batch tasks is never made up.
        """
        per_second = (batch - self._batch_stuck) * self._batch_per_slot
        return per_second * _SOON_SECONDS >= self._seconds > 0

    def batch(self, batch: int, places: int) -> int:
        """Batch slots that free within the lookahead; ``places`` may start at once."""
        own = self._batch_per_slot
        runs = batch + places if own >= 1 else batch
        return self._capped(int((runs - self._batch_stuck) * own))

    def _capped(self, count: int) -> int:
        if count <= 0:
            return 0
        return min(count, self.cap) if self.cap else count


def credits_of(
    limits: Limits,
    ahead: Lookahead,
    *,
    interactive: int,
    batch: int,
    slots: int,
    owed: int,
    open_: bool,
) -> Credits:
    """How many messages each lane may hold while so many run; ``owed`` of batch at the least."""
    free = max(slots - interactive - batch, 0)
    keep = limits.kept(interactive)
    credit = batch_credit(limits, ahead, running=batch, free=free, keep=keep, open_=open_)
    if limits.leans and free > keep and credit:
        return Credits(0, credit)
    room = limits.owed_ceiling - batch
    if room > 0 or (room == 0 and ahead.batch_slot_frees_soon(batch)):
        credit = max(credit, owed)
    return Credits(interactive_credit(limits, ahead, interactive, batch, free, slots), credit)


def batch_credit(
    limits: Limits, ahead: Lookahead, *, running: int, free: int, keep: int, open_: bool
) -> int:
    """Batch messages that may be held: those that may start, and the lookahead while open."""
    places = min(free - keep, limits.batch_ceiling - running)
    if not open_:
        return max(places, 0)
    if places > 0:
        return places + ahead.batch(running, places)
    return ahead.batch(running, 0) if free >= keep else 0


def interactive_credit(
    limits: Limits, ahead: Lookahead, interactive: int, batch: int, free: int, slots: int
) -> int:
    """Interactive messages that may be held: the free slots they may take, and the lookahead."""
    room = limits.interactive_ceiling - interactive
    if room <= 0:
        return ahead.interactive(interactive, 0, interactive)
    return min(free, room) + ahead.interactive(interactive, batch, slots)
