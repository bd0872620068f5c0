"""What the demo sends, and when: the same for both sides."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind

SEED = 20


class Sending(NamedTuple):
    """One task: when it is sent (seconds from the start), and how long it runs."""

    at: float
    kind: Kind
    number: int
    run_seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """Batch for six seconds at once, then as much as the slots can do; interactive all the time."""

    seconds: float = 18.0
    slots: int = 4
    batch_at_once: int = 16
    batch_run_seconds: tuple[float, float] = (1.0, 2.0)
    interactive_each_second: float = 4.0
    interactive_run_seconds: float = 0.05
    grace_seconds: float = 8.0
    """How long after the last interactive task its start is waited for."""

    def schedule(self) -> list[Sending]:
        """Every sending in the order of time; times are drawn, so that nothing runs in step."""
        draw = random.Random(SEED)
        batch = [
            Sending(at, BATCH, number, draw.uniform(*self.batch_run_seconds))
            for number, at in enumerate(self._batch_times(draw))
        ]
        interactive = [
            Sending(at, INTERACTIVE, number, self.interactive_run_seconds)
            for number, at in enumerate(self._interactive_times(draw))
        ]
        return sorted(batch + interactive)

    def _batch_times(self, draw: random.Random) -> list[float]:
        mean_run = sum(self.batch_run_seconds) / 2
        times = [0.0] * self.batch_at_once
        at = 0.0
        while (at := at + draw.uniform(0.5, 1.5) * mean_run / self.slots) < self.end:
            times.append(at)
        return times

    def _interactive_times(self, draw: random.Random) -> list[float]:
        # A moment after the flood, which is what they are meant to meet.
        times = []
        at = 0.2
        while at < self.seconds:
            times.append(at)
            at += draw.uniform(0.5, 1.5) / self.interactive_each_second
        return times

    @property
    def end(self) -> float:
        """When everything ends at the latest."""
        return self.seconds + self.grace_seconds

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
