"""How long tasks of each kind have waited of late."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from celery_fair.policy.kinds import KINDS, Kind

WINDOW_SECONDS = 300.0
KEPT = 4096
QUANTILES = (0.5, 0.95, 0.99)


class Waits:
    """The waits (seconds from ready to dispatch) of the last minutes: at most ``KEPT`` a kind."""

    def __init__(self) -> None:
        self._waits: dict[Kind, deque[tuple[float, float]]] = {
            kind: deque(maxlen=KEPT) for kind in KINDS
        }
        self.clamped = 0
        """Waits that came out negative, since a publisher's clock is ahead of ours."""

    def add(self, kind: Kind, now: float, wait_seconds: float) -> None:
        if wait_seconds < 0:
            self.clamped += 1
            wait_seconds = 0.0
        self._waits[kind].append((now, wait_seconds))

    def summary(self, kind: Kind, now: float) -> Mapping[str, float | int | None]:
        """Count, p50, p95, p99 and maximum over the last ``WINDOW_SECONDS``; ``None`` if none."""
        recent = sorted(wait for at, wait in self._waits[kind] if now - at <= WINDOW_SECONDS)
        summary: dict[str, float | int | None] = {"count": len(recent)}
        for quantile in QUANTILES:
            index = min(int(quantile * len(recent)), len(recent) - 1)
            summary[f"p{quantile * 100:g}"] = round(recent[index], 4) if recent else None
        summary["max"] = round(recent[-1], 4) if recent else None
        return summary
