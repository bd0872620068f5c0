"""The last quarter of an hour, from what the workers' counters gained from event to event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from celery_fair import KINDS, Kind
from celery_fair.observe.counts import BOUNDS, quantile

STEP_SECONDS: Final = 10.0
STEPS: Final = 90
WINDOW_STEPS: Final = 3
"""A point of the chart is the quantile over so many steps: a quiet lane has few tasks in one."""
IDLE_STEPS: Final = 30
QUANTILE: Final = 0.95
REASONS: Final = 12
"""No more reasons are kept apart than a worker could have."""


@dataclass(slots=True)
class Step:
    """What was gained in one step, all workers together."""

    number: int
    waits: dict[Kind, list[int]] = field(
        default_factory=lambda: {kind: [0] * (len(BOUNDS) + 1) for kind in KINDS}
    )
    idle_seconds: dict[str, float] = field(default_factory=dict)


class History:
    """A ring of steps; time is an argument, in seconds of any one clock."""

    def __init__(self, now: float) -> None:
        self._began_at = now
        self._steps: deque[Step] = deque(maxlen=STEPS)

    def add(self, before: Mapping[str, Any], after: Mapping[str, Any], now: float) -> None:
        """Take in what one worker gained between two of its facts.

        Raises what malformed facts make it raise, and has then added nothing.
        """
        restarted = before["started_at"] != after["started_at"]
        waits = {kind: _gain(None if restarted else before, after, kind) for kind in KINDS}
        idle = _idle(None if restarted else before, after)
        step = self._step(now)
        for kind, gained in waits.items():
            step.waits[kind] = [sum(pair) for pair in zip(step.waits[kind], gained, strict=True)]
        for reason, seconds in idle.items():
            if reason in step.idle_seconds or len(step.idle_seconds) < REASONS:
                step.idle_seconds[reason] = step.idle_seconds.get(reason, 0.0) + seconds

    def _step(self, now: float) -> Step:
        number = int(now // STEP_SECONDS)
        if not self._steps or self._steps[-1].number < number:
            self._steps.append(Step(number))
        return self._steps[-1]

    def waits(self, now: float) -> list[tuple[float, float | None, float | None]]:
        """Oldest first: how long ago (seconds), and p95 of both kinds' waits; ``None``: no task."""
        last = int(now // STEP_SECONDS)
        known = {step.number: step for step in self._steps}
        points = []
        for number in range(last - STEPS + 1, last + 1):
            window = [known[n] for n in range(number - WINDOW_STEPS + 1, number + 1) if n in known]
            ago = max(now - (number + 1) * STEP_SECONDS, 0.0)
            interactive, batch = (_p95(step.waits[kind] for step in window) for kind in KINDS)
            points.append((round(ago, 1), interactive, batch))
        return points

    def idle_slots(self, now: float) -> dict[str, float]:
        """How many slots stood idle on average over the last minutes, by reason."""
        first = int(now // STEP_SECONDS) - IDLE_STEPS + 1
        seconds = max(min(now - self._began_at, now - first * STEP_SECONDS), STEP_SECONDS)
        found: dict[str, float] = {}
        for step in self._steps:
            if step.number >= first:
                for reason, idle in step.idle_seconds.items():
                    found[reason] = found.get(reason, 0.0) + idle
        return {reason: idle / seconds for reason, idle in found.items()}


def _gain(before: Mapping[str, Any] | None, after: Mapping[str, Any], kind: Kind) -> list[int]:
    new = _buckets(after, kind)
    old = _buckets(before, kind) if before is not None else [0] * len(new)
    return [max(int(b) - int(a), 0) for a, b in zip(old, new, strict=True)]


def _buckets(facts: Mapping[str, Any], kind: Kind) -> list[int]:
    buckets: list[int] = facts["kinds"][kind]["waits"]["buckets"]
    if len(buckets) != len(BOUNDS) + 1:
        raise ValueError("other buckets than ours")
    return buckets


def _idle(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, float]:
    new = after["slots"]["idle_seconds"]
    old = before["slots"]["idle_seconds"] if before is not None else {}
    gained = {str(name)[:40]: float(new[name]) - float(old.get(name, 0.0)) for name in new}
    return {name: seconds for name, seconds in gained.items() if 0 < seconds < 1e9}


def _p95(histograms: Iterable[list[int]]) -> float | None:
    found = quantile([sum(column) for column in zip(*histograms, strict=True)], QUANTILE)
    return None if found is None else round(found, 5)
