"""How many tasks of each kind a worker has started over the last minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from celery_fair.policy.kinds import Kind

EVERY_SECONDS: Final = 5.0
WINDOW_SECONDS: Final = 60.0


class Starts:
    """A sample of the counts every few seconds, so that a message costs nothing."""

    def __init__(self) -> None:
        most = int(WINDOW_SECONDS / EVERY_SECONDS) + 1
        self._samples: deque[tuple[float, dict[Kind, int]]] = deque(maxlen=most)

    def tick(self, dispatched: Mapping[Kind, int], now: float) -> None:
        """Look at what has been dispatched since the worker began."""
        if not self._samples or now - self._samples[-1][0] >= EVERY_SECONDS:
            self._samples.append((now, dict(dispatched)))

    def rate(self, kind: Kind, dispatched: int, now: float) -> tuple[float, float] | None:
        """Starts a second, and over how many seconds; None at the very beginning."""
        if not self._samples or now - self._samples[0][0] < EVERY_SECONDS:
            return None
        at, before = self._samples[0]
        seconds = now - at
        return (dispatched - before[kind]) / seconds, seconds
