"""The waits of the last minutes, from histograms that only ever grow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from celery_fair.observe.counts import BOUNDS, quantile
from celery_fair.policy.kinds import KINDS, Kind

CELL_SECONDS: Final = 10.0
"""What one character of a sparkline stands for."""
CELLS: Final = 60
NOW_SECONDS: Final = 30.0
"""What counts as now: in a fleet of thousands a worker tells something every 20 s."""

Counts = dict[Kind, list[int]]
"""How many tasks of each kind fell into each bucket of `BOUNDS`."""


def difference(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Counts:
    """Return what has started between two words of a worker; nothing where that can't be known.

    A worker that has started anew has counted from 0.
    """
    if before is None:
        return {}
    same_run = before["started_at"] == after["started_at"]
    found: Counts = {}
    for kind in KINDS:
        now: list[int] = after["kinds"][kind]["waits"]["buckets"]
        was = before["kinds"][kind]["waits"]["buckets"] if same_run else [0] * len(now)
        if len(was) != len(now) or len(now) != len(BOUNDS) + 1:
            continue  # of a version with other buckets
        grown = [a - b for a, b in zip(now, was, strict=True)]
        if min(grown) >= 0:
            found[kind] = grown
    return found


class Waits:
    """What has started of late, in cells of `CELL_SECONDS`; times are the listener's own clock."""

    def __init__(self) -> None:
        self._cells: dict[int, Counts] = {}

    def add(self, counts: Counts, at: float) -> None:
        cell = self._cells.setdefault(int(at // CELL_SECONDS), {})
        for kind, more in counts.items():
            if any(more):
                so_far = cell.get(kind)
                cell[kind] = more if so_far is None else _sum([so_far, more])
        while len(self._cells) > CELLS:
            del self._cells[min(self._cells)]

    def now(self, kind: Kind, now: float, q: float = 0.95) -> float | None:
        """The quantile of those that have started within the last `NOW_SECONDS`."""
        first = int((now - NOW_SECONDS) // CELL_SECONDS)
        found = [cell[kind] for at, cell in self._cells.items() if at >= first and kind in cell]
        return quantile(_sum(found), q) if found else None

    def line(self, kind: Kind, now: float, cells: int, q: float = 0.95) -> list[float | None]:
        """The quantile of each of the last so many cells, the oldest first."""
        last = int(now // CELL_SECONDS)
        return [
            quantile(self._cells.get(cell, {}).get(kind, ()), q)
            for cell in range(last - cells + 1, last + 1)
        ]


def _sum(histograms: list[list[int]]) -> list[int]:
    return [sum(bucket) for bucket in zip(*histograms, strict=True)]
