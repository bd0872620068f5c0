"""How fast a kind is served, and what that makes of the time until one task starts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """One worker's: starts a second as counted, and the slots that the kind may have there now.

    ``started_a_second`` is None where it says nothing: the kind didn't wait, so that more could
    have been started. ``mean_run_seconds`` is 0 where none has ended yet.
    """

    started_a_second: float | None
    slots: float
    mean_run_seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """When a task starts, in seconds from now, and what that rests on (starts a second)."""

    low_seconds: float
    high_seconds: float
    before: int
    counted_rate: float | None
    possible_rate: float | None


def possible_rate(slots_and_means: Iterable[tuple[float, float]]) -> float | None:
    """Starts a second by slots and mean run time; None where nobody knows a run time.

    Who has seen none end yet is taken to need the mean of the others.
    """
    every = list(slots_and_means)
    known = [mean for _, mean in every if mean > 0]
    if not known:
        return None
    usual = sum(known) / len(known)
    return sum(slots / (mean or usual) for slots, mean in every)


def estimate(before: int, paces: Sequence[Pace]) -> Estimate | None:
    """When the task with so many before it starts, where these workers serve its line together.

    A band: between the rate that was counted and the one that slots and run times make possible,
    and wider by the square root of the number, as for starts that come at random (Poisson). None
    where neither is known.
    """
    counts = [pace.started_a_second for pace in paces if pace.started_a_second is not None]
    counted = sum(counts) or None
    possible = possible_rate((pace.slots, pace.mean_run_seconds) for pace in paces) or None
    rates = [rate for rate in (counted, possible) if rate is not None]
    if not rates:
        return None
    nth = before + 1
    spread = math.sqrt(nth)
    return Estimate(
        (nth - spread) / max(rates), (nth + spread) / min(rates), before, counted, possible
    )
