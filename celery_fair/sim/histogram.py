"""Quantiles of any number of waits in a few kilobytes."""

from __future__ import annotations

import math

_LEAST_SECONDS = 1e-5
_MOST_SECONDS = 1e8
_STEP = 0.02
"""Each bucket reaches so much further than the one before: quantiles are off by 1 % at the most."""
_PER_LOG = 1 / math.log1p(_STEP)
_OFFSET = 1 - math.log(_LEAST_SECONDS) * _PER_LOG
_SIZE = int(math.log(_MOST_SECONDS / _LEAST_SECONDS) * _PER_LOG) + 2


class Histogram:
    """Counts by logarithmic buckets (DDSketch: Masson, Rim, Lee, VLDB 2019, section 2).

    What is under ten microseconds counts as none at all.
    """

    __slots__ = ("buckets", "count", "most", "total")

    def __init__(self) -> None:
        self.buckets = [0] * _SIZE
        self.count = 0
        self.total = self.most = 0.0

    def add(self, seconds: float, number: int = 1) -> None:
        """Count one, or so many."""
        self.count += number
        if seconds > _LEAST_SECONDS:
            self.total += seconds * number
            if seconds > self.most:
                self.most = seconds
            self.buckets[int(math.log(seconds) * _PER_LOG + _OFFSET)] += number
        else:
            self.buckets[0] += number

    def merge(self, other: Histogram) -> None:
        """Count what the other has counted, too."""
        self.count += other.count
        self.total += other.total
        self.most = max(self.most, other.most)
        self.buckets = [mine + its for mine, its in zip(self.buckets, other.buckets, strict=True)]

    def quantile(self, part: float) -> float:
        """Return the least value that ``part`` of them don't exceed; ``nan`` if there are none."""
        if not self.count:
            return math.nan
        rank = max(math.ceil(part * self.count), 1)
        if rank == self.count:
            return self.most
        seen = 0
        for index, number in enumerate(self.buckets):
            seen += number
            if seen >= rank:
                return _middle(index) if index else 0.0
        return self.most

    @property
    def mean(self) -> float:
        """The mean, exactly; ``nan`` if there are none."""
        return self.total / self.count if self.count else math.nan


def _middle(index: int) -> float:
    return math.exp((index + 0.5 - _OFFSET) / _PER_LOG)
