"""Whether settings meet what was asked for, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from celery_fair.advise.measure import Candidate, Run
from celery_fair.advise.targets import Done, KeepsUp, Rate, Target, Wait
from celery_fair.sim.experiment import Band

MARGIN: Final = 0.15
"""As far as simulated figures may be from measured ones (docs/simulator.md)."""
_WAITS_VARY: Final = 1.5
_RATES_VARY: Final = 1.2
"""One seed that misses by more than this factor is enough to know."""
LEAST_SEEDS: Final = 3

State = Literal["met", "close", "missed"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a target came to: ``close`` is met on average, and by luck or within the margin."""

    target: Target
    value: Band
    state: State


@dataclass(frozen=True, slots=True)
class Verdict:
    """What some settings came to, over all seeds that were tried."""

    candidate: Candidate
    readings: tuple[Reading, ...]
    seeds: int
    batch_rate: Band
    batch_slots: float

    @property
    def state(self) -> State:
        """That of the target that is worst off."""
        states = {one.state for one in self.readings}
        return "missed" if "missed" in states else "close" if "close" in states else "met"

    def meets(self, *kinds: type) -> bool:
        """Whether all targets of these kinds are met, or all there are."""
        asked = [one for one in self.readings if not kinds or isinstance(one.target, kinds)]
        return all(one.state == "met" for one in asked)

    @property
    def worst(self) -> Reading:
        """The target that is missed by the largest factor, or met by the smallest."""
        return max(self.readings, key=lambda one: missed_by(one.target, one.value.mean))


def limit_of(target: Target) -> float:
    """The figure that must not be passed."""
    if isinstance(target, (Wait, Done)):
        return target.seconds
    return target.per_second if isinstance(target, Rate) else target.part


def missed_by(target: Target, value: float) -> float:
    """How many times worse than asked for: below 1 is better."""
    limit = limit_of(target)
    if isinstance(target, (Wait, Done)):
        return value / limit
    return math.inf if value <= 0 else limit / value


def kept(target: Target, margin: float) -> float:
    """The margin of a target: there is none above all that comes."""
    return 0.0 if isinstance(target, KeepsUp) else margin


def judge(
    candidate: Candidate, targets: Sequence[Target], runs: Sequence[Run], margin: float
) -> Verdict:
    """Put the runs of some settings together."""
    readings = []
    for target in targets:
        band = Band.of([run.of(target) for run in runs])
        readings.append(Reading(target, band, _state(target, band, len(runs), margin)))
    return Verdict(
        candidate,
        tuple(readings),
        len(runs),
        Band.of([run.batch_rate for run in runs]),
        Band.of([run.batch_slots for run in runs]).mean,
    )


def _state(target: Target, band: Band, seeds: int, margin: float) -> State:
    if missed_by(target, band.mean) > 1:
        return "missed"
    spread = math.inf if seeds < LEAST_SEEDS or math.isnan(band.spread) else band.spread
    if isinstance(target, (Wait, Done)):
        sure = band.mean + spread <= limit_of(target) * (1 - margin)
    else:
        sure = band.mean - spread >= limit_of(target) * (1 + kept(target, margin))
    return "met" if sure else "close"


def is_settled(verdict: Verdict, most: int, margin: float) -> bool:
    """Whether further seeds would hardly change whether all is met."""
    if verdict.seeds >= most:
        return True
    over = [
        missed_by(one.target, one.value.mean) * (1 + kept(one.target, margin))
        / (_WAITS_VARY if isinstance(one.target, Wait) else _RATES_VARY)
        for one in verdict.readings
    ]  # fmt: skip
    if max(over) > 1:
        return True
    if verdict.seeds < LEAST_SEEDS:
        return False
    return verdict.state == "met" or any(
        missed_by(one.target, one.value.mean) * (1 + kept(one.target, margin)) > 1
        for one in verdict.readings
    )
