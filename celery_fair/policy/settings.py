"""The numbers that the policy works with, all of them resolved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


def ceiling(x: float) -> int:
    """``ceil`` that forgives the rounding of products such as ``5 * 0.2``."""
    return math.ceil(x - 1e-9)


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """How slots are divided between interactive and batch. Times are seconds, shares ratios.

    ``None`` stands for a number that depends on others (``aged_share``, ``engine_batch_share``,
    ``reserve_wait_seconds``) or for "no limit" (the two hard ceilings, aging).
    """

    batch_share: float = 0.2
    aged_share: float | None = None
    engine_batch_share: float | None = None
    share_unit: Literal["seconds", "tasks"] = "seconds"
    reserve: int | Literal["auto"] = "auto"
    reserve_min: int = 1
    reserve_target: float = 0.05
    reserve_wait_seconds: float | None = None
    batch_max_slots: int | None = None
    interactive_max_slots: int | None = None
    protect_backlog: int = 10
    protect_wait_seconds: float = 0.3
    protect_hold_seconds: float = 0.25
    batch_max_wait_seconds: float | None = None
    lookahead_seconds: float = 0.05
    prefetch_multiplier: int = 4

    def check(self, slots: int) -> None:
        """Raise `ValueError` if a worker, or a fleet, of ``slots`` cannot keep these promises.

        The policy itself never refuses: ``slots`` changes under it, and it then acts on the
        nearest numbers that fit (`clamped_reserve`, `guaranteed`).
        """
        guaranteed = self.guaranteed(slots)
        if self.reserve != "auto" and self.reserve > slots - guaranteed:
            raise ValueError(
                f"expected reserve to be at most {slots - guaranteed}, got: {self.reserve}: of "
                f"{slots} slots {guaranteed} are guaranteed to batch by batch_share="
                f"{self.batch_share:g}; lower reserve or batch_share, or raise the concurrency"
            )
        if self.batch_max_slots is not None and self.batch_max_slots < guaranteed:
            raise ValueError(
                f"expected batch_max_slots to be at least {guaranteed}, got: "
                f"{self.batch_max_slots}: batch_share={self.batch_share:g} guarantees so many of "
                f"{slots} slots to batch; raise batch_max_slots or lower batch_share"
            )

    def guaranteed(self, slots: int, share: float | None = None) -> int:
        """How many of ``slots`` batch may use whatever interactive does."""
        return ceiling(slots * (self.batch_share if share is None else share))

    def clamped_reserve(self, slots: int, wanted: int) -> int:
        """``wanted`` slots of reserve, or as many as the guarantee leaves."""
        return max(0, min(wanted, slots - self.guaranteed(slots)))

    @property
    def least_share(self) -> float:
        """What batch is guaranteed however full the engine behind the tasks is."""
        given = self.engine_batch_share
        return self.batch_share / 4 if given is None else given

    def share_at(self, batch_wait_seconds: float) -> float:
        """The share when the oldest batch task has waited so long: aging, a bounded lift."""
        limit = self.batch_max_wait_seconds
        if limit is None or batch_wait_seconds <= limit:
            return self.batch_share
        aged = min(2 * self.batch_share, 0.5) if self.aged_share is None else self.aged_share
        part = 1.0 if limit <= 0 else min(batch_wait_seconds / limit - 1, 1.0)
        return self.batch_share + (max(aged, self.batch_share) - self.batch_share) * part
