"""How fast a job is, and when it will be done, of what was finished lately.

Finished items are counted in buckets of `BUCKET_SECONDS`, of which the last `BUCKETS` are kept: the
rate is theirs, so that a job that has slowed down says so within a minute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

BUCKET_SECONDS: Final = 10.0
BUCKETS: Final = 7
"""One of them is not full yet."""

_FEW = 3
"""Rounds of chunks in the buckets; with fewer, the pace since work began says more."""


class Pace(NamedTuple):
    """What was finished, in items, and in how many seconds."""

    finished: int
    seconds: float
    from_start: bool
    """Whether work began with these seconds, so that nothing finished had been begun before."""
    spread: float = 0.0
    """Standard error of the rate, in items a second, of the full buckets."""

    @property
    def rate(self) -> float:
        """Items a second."""
        return self.finished / self.seconds


def bucket_of(now: float) -> int:
    """The number of the bucket that counts what is finished at ``now``."""
    return math.floor(now / BUCKET_SECONDS)


def lately(counts: Mapping[int, int], started_at: float, now: float) -> Pace | None:
    """The pace of the last minute, or since work began; None before any time has passed.

    ``counts`` has finished items by number of bucket, and may have older ones, which don't count.
    """
    first = bucket_of(now) - BUCKETS + 1
    start = max(started_at, first * BUCKET_SECONDS)
    if now <= start:
        return None
    finished = sum(count for number, count in counts.items() if number >= bucket_of(start))
    full = range(math.ceil(start / BUCKET_SECONDS), bucket_of(now))
    rates = [counts.get(number, 0) / BUCKET_SECONDS for number in full]
    return Pace(finished, now - start, start == started_at, _standard_error(rates))


def believable(recent: Pace | None, whole: Pace | None, in_flight: int) -> Pace | None:
    """The recent pace, or that since work began where chunks take as long as all that is recent.

    ``in_flight`` are the items of chunks that run. Where none does, a job stands, whatever it did.
    """
    if recent is None or recent.from_start or recent.finished >= _FEW * in_flight:
        return recent
    return whole


def seconds_left(left: int, in_flight: int, pace: Pace | None) -> tuple[float, float] | None:
    """From and to how many seconds ``left`` items take; None where nothing tells.

    How many of those ``in_flight`` are done nobody has said yet, so they are what a constant rate
    may seem to be off by.
    """
    if pace is None or not pace.finished:
        return None
    most = (pace.finished + in_flight) / pace.seconds + 2 * pace.spread
    before = 0 if pace.from_start else in_flight
    least = (pace.finished - before) / pace.seconds - 2 * pace.spread
    least = max(least, pace.rate / _UNSTEADY)
    return max(left - in_flight, 0) / most, left / least


_UNSTEADY = 4
"""No estimate is longer than so many times what the mean rate says: rates that jump say no more."""


def _standard_error(rates: list[float]) -> float:
    if len(rates) < 3:
        return 0.0
    mean = sum(rates) / len(rates)
    variance = sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)
    return math.sqrt(variance / len(rates))
