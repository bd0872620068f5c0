"""How many slots a queueing formula asks for: a first guess, which the simulator then tries.

Erlang C (A. K. Erlang, 1917) is exact for Poisson arrivals and exponential run times. Others are
put right as A. O. Allen (Probability, Statistics, and Queueing Theory, 2nd ed. 1990, section 5.3)
and Cunneen do for the mean wait of G/G/c: it is multiplied by half the sum of the squared
coefficients of variation of gaps and run times. That those who wait do so for an exponential time
is exact for M/M/c and a guess elsewhere: a heavy tail has more long waits than it tells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stream:
    """Of one kind: tasks a second, and what their run times and gaps are like."""

    rate: float
    mean_seconds: float
    run_variation: float = 1.0
    """The variance of run times by the square of their mean: 0 if all are alike, 1 exponential."""
    gap_variation: float = 1.0
    """The same of the gaps between arrivals: 1 for Poisson."""

    @property
    def slots(self) -> float:
        """How many of its tasks run on average: what it needs at the very least."""
        return self.rate * self.mean_seconds


def waits(slots: int, load: float) -> float:
    """Erlang C: the chance that an arrival finds all slots taken, for a load in slots."""
    if load <= 0:
        return 0.0
    if load >= slots:
        return 1.0
    blocked = 1.0
    for number in range(1, slots + 1):  # Erlang B, by its recursion, which can't overflow
        blocked = load * blocked / (number + load * blocked)
    return blocked / (1 - load / slots * (1 - blocked))


def mean_wait(slots: int, stream: Stream) -> float:
    """Allen–Cunneen's mean wait, infinite where the load is too much."""
    if stream.slots >= slots:
        return math.inf
    if not stream.slots:
        return 0.0
    variation = (stream.run_variation + stream.gap_variation) / 2
    return waits(slots, stream.slots) * variation * stream.mean_seconds / (slots - stream.slots)


def quantile_wait(slots: int, stream: Stream, quantile: float) -> float:
    """The wait that so many don't exceed."""
    chance = waits(slots, stream.slots)
    if chance <= 1 - quantile:
        return 0.0
    return mean_wait(slots, stream) / chance * math.log(chance / (1 - quantile))


def slots_for(stream: Stream, quantile: float, seconds: float, most: int = 100_000) -> int:
    """The fewest slots with which that wait is below ``seconds``; ``most`` if none are enough."""
    low = high = min(math.floor(stream.slots) + 1, most)
    step = 1
    while high < most and quantile_wait(high, stream, quantile) >= seconds:
        low, high = high + 1, min(high + step, most)
        step *= 2
    while low < high:
        middle = (low + high) // 2
        if quantile_wait(middle, stream, quantile) < seconds:
            high = middle
        else:
            low = middle + 1
    return low
