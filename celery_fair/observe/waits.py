"""How long tasks of each kind have waited of late."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import inf

from celery_fair.policy.kinds import KINDS, Kind

WINDOW_SECONDS = 300.0
KEPT = 4096
QUANTILES = (0.5, 0.95, 0.99)


class Waits:
    """The waits (seconds from ready to dispatch) of the last minutes: at most ``KEPT`` a kind."""

    def __init__(self) -> None:
        self._rings = {kind: _Ring() for kind in KINDS}
        self.clamped = 0
        """Waits that came out negative, since a publisher's clock is ahead of ours."""

    def add(self, kind: Kind, now: float, wait_seconds: float) -> None:
        """One wait of a task that started at ``now``."""
        self.add_all(kind, [now], [wait_seconds])

    def add_all(self, kind: Kind, ats: list[float], waits: list[float]) -> list[float]:
        """Waits of tasks that started at these times; return them with none shorter than 0."""
        if min(waits) < 0:
            self.clamped += sum(wait < 0 for wait in waits)
            waits = [max(wait, 0.0) for wait in waits]
        self._rings[kind].add(ats, waits)
        return waits

    def summary(self, kind: Kind, now: float) -> Mapping[str, float | int | None]:
        """Count, p50, p95, p99 and maximum over the last ``WINDOW_SECONDS``; ``None`` if none."""
        recent = sorted(self._rings[kind].since(now - WINDOW_SECONDS))
        summary: dict[str, float | int | None] = {"count": len(recent)}
        for quantile in QUANTILES:
            index = min(int(quantile * len(recent)), len(recent) - 1)
            summary[f"p{quantile * 100:g}"] = round(recent[index], 4) if recent else None
        summary["max"] = round(recent[-1], 4) if recent else None
        return summary


class _Ring:
    """The last ``KEPT`` waits, in 64 kB from the start: a worker's memory is not to grow."""

    __slots__ = ("_at", "_next", "_waits")

    def __init__(self) -> None:
        self._at = array("d", [-inf]) * KEPT
        self._waits = array("d", [0.0]) * KEPT
        self._next = 0

    def add(self, ats: list[float], waits: list[float]) -> None:
        while ats:
            begin = self._next
            end = min(begin + len(ats), KEPT)
            number = end - begin
            self._at[begin:end] = array("d", ats[:number])
            self._waits[begin:end] = array("d", waits[:number])
            self._next = end % KEPT
            ats, waits = ats[number:], waits[number:]

    def since(self, start: float) -> list[float]:
        pairs = zip(self._at, self._waits, strict=True)
        return [wait for at, wait in pairs if at >= start]
