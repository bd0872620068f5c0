"""Running estimates from what started and finished: run times and arrival rates."""

from __future__ import annotations

import math

_MEMORY = 20
"""Tasks over which a mean run time forgets (the first so many weigh the same)."""


class RunTime:
    """The mean run time of one kind, in seconds; 0 while nothing has finished."""

    __slots__ = ("count", "mean", "oldest")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.oldest = 0.0

    def add(self, seconds: float) -> None:
        """Take in the run time of a finished task."""
        self.count += 1
        self.mean += (seconds - self.mean) / (self.count if self.count < _MEMORY else _MEMORY)

    @property
    def expected(self) -> float:
        """The mean, or the age of the oldest running task if that is longer: 0 if unknown."""
        return max(self.mean, self.oldest)

    @property
    def stuck(self) -> int:
        """1 if a running task is so much older than the mean that it won't free its slot soon."""
        return int(self.oldest > 2 * self.mean)


class Rate:
    """Events a second with exponential forgetting, honest from the first minute on."""

    __slots__ = ("_events", "_seconds", "at", "new")

    _MINIMUM_SECONDS = 20.0

    def __init__(self, now: float) -> None:
        self._events = 0.0
        self._seconds = 0.0
        self.at = now
        self.new = 0

    def per_second(self, now: float, memory_seconds: float) -> float:
        """Fold in the events counted in ``new`` and return the rate over the memory."""
        dt = now - self.at
        if dt > 0:
            kept = math.exp(-dt / memory_seconds)
            self._events = self._events * kept + self.new
            self._seconds = self._seconds * kept + dt
            self.at = now
            self.new = 0
        return self._events / max(self._seconds, self._MINIMUM_SECONDS)
