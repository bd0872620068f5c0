"""The batch guarantee: what batch is owed, in slot-seconds or in turns."""

from __future__ import annotations

import math

_DECAY_SECONDS = 5.0
_UNKNOWN_RUN_SECONDS = 1.0
_SOON_SECONDS = 1.0
_VIEW_SECONDS = 2.5
"""How old another worker's last word may be."""
_OUT_OF_SIGHT_SECONDS = 300.0
"""How long those that own no guaranteed slot trust in others whom they can't see."""
_RECEIVED_MEMORY_SECONDS = 180.0
_ALWAYS = float("-inf")
_NEVER = float("inf")


class Share:
    """Debt to batch, paid by running it.

    In seconds, debt grows by ``share * slots - running batch`` a second while batch waits, whatever
    interactive does. In tasks, each start adds ``share`` and a batch start takes 1: weighted turns,
    in which a share of 1/6 is 5:1. Batch is *owed* when the debt covers one more batch task.
    A deficit counter per Shreedhar and Varghese, "Efficient Fair Queuing using Deficit
    Round-Robin" (SIGCOMM 1995), with time for bytes.

    Between two changes debt is a straight line, so the moment from which batch is owed is computed
    at a change and the hot path only compares ``now`` with ``owed_when``.
    """

    __slots__ = (
        "_at", "_batch_mean", "_batch_running", "_cap", "_floor", "_rate", "_threshold", "_unit",
        "debt", "in_tasks", "owed_when", "share", "slots", "soon_when", "waits",
    )  # fmt: skip

    def __init__(self, share: float, slots: float, now: float, *, in_tasks: bool) -> None:
        self.in_tasks = in_tasks
        self.share = share
        self.slots = slots
        self.waits = False
        self.debt = 0.0
        self._at = now
        self._rate = 0.0
        self._batch_running = 0
        self._configure(share, slots, 0.0, 0.0, 0.0)
        self.moved(0, now)

    def tick(
        self,
        now: float,
        *,
        waits: bool,
        running: int,
        share: float,
        slots: float,
        batch_mean: float,
        longest_mean: float,
        distance: int,
        trusts: bool = False,
    ) -> None:
        """Settle up to ``now``, then go on with these numbers.

        ``distance``: how far, in slots, this worker is from the fleet's guaranteed ones. It acts on
        the debt only when it has grown well beyond what those would have let it: one step for each
        slot, long enough for a start elsewhere to be seen before the next worker moves. Where it
        ``trusts`` in those, unseen, it is long.
        """
        self.moved(running, now)
        self.waits = waits
        step = 2.0 if self.in_tasks else max(batch_mean, _VIEW_SECONDS * share * slots)
        patience = distance * step
        if distance and trusts and not self.in_tasks:
            patience = max(patience, _OUT_OF_SIGHT_SECONDS * share * slots)
        self._configure(share, slots, batch_mean, longest_mean, patience)
        self.moved(running, now)

    def _configure(
        self, share: float, slots: float, batch_mean: float, longest_mean: float, patience: float
    ) -> None:
        self.share = share
        self.slots = slots
        self._batch_mean = batch_mean
        if self.in_tasks:
            self._unit = 1.0
            self._threshold = 1.0 - share + patience
            self._floor, self._cap = -1.0, 2.0 * max(slots, 1) + patience
            return
        unit = batch_mean or _UNKNOWN_RUN_SECONDS
        self._unit = unit
        self._threshold = unit + patience
        self._floor = -unit
        self._cap = max(2 * slots * max(unit, longest_mean), self._threshold + unit)

    def moved(self, batch_running: int, now: float) -> None:
        """Settle the debt up to ``now``, from when on so many batch tasks run."""
        dt = now - self._at
        if dt > 0:
            self._at = now
            if not self.waits:
                self.debt *= math.exp(-dt / _DECAY_SECONDS)
            else:
                self.debt += self._rate * dt
            if self.debt < self._floor:
                self.debt = self._floor
            elif self.debt > self._cap:
                self.debt = self._cap
        self._batch_running = batch_running
        rate = 0.0 if self.in_tasks else self.share * self.slots - batch_running
        self._rate = rate
        missing = self._threshold - self.debt
        if missing <= 1e-9:
            self.owed_when = self.soon_when = _ALWAYS
        elif rate > 0 and self.waits:
            self.owed_when = self._at + missing / rate
            self.soon_when = self.owed_when - _SOON_SECONDS
        else:
            self.owed_when = _NEVER
            self.soon_when = _ALWAYS if self.in_tasks else _NEVER

    def count_in_tasks(self, in_tasks: bool, now: float) -> None:
        """Count in the other unit from now on; the debt stays worth as many batch tasks."""
        if in_tasks == self.in_tasks:
            return
        self.moved(self._batch_running, now)
        mean = self._batch_mean or _UNKNOWN_RUN_SECONDS
        self.debt = self.debt / mean if in_tasks else self.debt * mean
        self.in_tasks = in_tasks

    def turn(self, charge: float, *, batch: bool, now: float) -> None:
        """Count a start, where debt is counted in tasks."""
        if self.waits or batch:
            self.debt += charge * (self.share - 1.0 if batch else self.share)
        self.moved(self._batch_running, now)
        self.debt = min(max(self.debt, self._floor), self._cap)

    def owe(self, seconds: float) -> None:
        """Take back what was paid in error."""
        if self.waits and not self.in_tasks:
            self.debt += seconds

    def scale(self, factor: float) -> None:
        """Keep this part of the debt: the rest belongs to slots that are no longer in view."""
        self.debt *= factor

    @property
    def tasks_owed(self) -> int:
        """How many batch tasks the debt covers, as of the last change."""
        return int(self.debt / self._unit) if self.debt > 0 else 0

    def debt_at(self, now: float) -> float:
        """The debt as of ``now``, without settling it."""
        if not self.waits or now <= self._at:
            return self.debt
        return min(max(self.debt + self._rate * (now - self._at), self._floor), self._cap)


class Received:
    """The part of slot-seconds that batch got over the last minutes in which both kinds wanted."""

    __slots__ = ("_at", "_batch", "_slots")

    def __init__(self, now: float) -> None:
        self._at = now
        self._batch = self._slots = 0.0

    def tick(self, now: float, batch_running: int | None, slots: int) -> None:
        """Count the time since the last tick; ``None`` where not both kinds wanted slots."""
        dt = now - self._at
        self._at = now
        if batch_running is None or dt <= 0:
            return
        kept = math.exp(-dt / _RECEIVED_MEMORY_SECONDS)
        self._batch = self._batch * kept + batch_running * dt
        self._slots = self._slots * kept + slots * dt

    @property
    def share(self) -> float | None:
        """Batch's part of the slot-seconds, ``None`` before there were any."""
        return self._batch / self._slots if self._slots > 0 else None
