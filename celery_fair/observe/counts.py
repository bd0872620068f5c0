"""What has happened in one worker since it started, by kind and by task."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from celery_fair.policy.kinds import KINDS, Kind

BOUNDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0,
)  # fmt: skip
"""Upper bounds in seconds of the buckets of waits and run times; the last one has none."""

TASKS: Final = 200
"""Names of tasks that are counted by themselves, of each kind."""

OTHERS: Final = "(others)"


class Histogram:
    """How many durations fell under each of `BOUNDS`, and their sum."""

    __slots__ = ("buckets", "sum_seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.sum_seconds = 0.0

    def add(self, seconds: float) -> None:
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.sum_seconds += seconds

    def report(self) -> dict[str, object]:
        return {"buckets": list(self.buckets), "sum": round(self.sum_seconds, 6)}


class TaskCounts:
    """One task's: how often it ended in which way, and its waits and runs added up."""

    __slots__ = ("outcomes", "run_seconds", "wait_seconds")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.wait_seconds = self.run_seconds = 0.0


class Counts:
    """Counted by the loop; read, a moment out of step at most, by whoever shows it.

    Of a kind there are at most `TASKS` names of tasks, those that ended first; the rest is
    counted together as `OTHERS`.
    """

    def __init__(self, outcomes: Iterable[str], drops: Iterable[str]) -> None:
        self.waits = {kind: Histogram() for kind in KINDS}
        self.runs = {kind: Histogram() for kind in KINDS}
        outcomes, drops = tuple(outcomes), tuple(drops)
        self.finished = {kind: dict.fromkeys(outcomes, 0) for kind in KINDS}
        self.dropped = {kind: dict.fromkeys(drops, 0) for kind in KINDS}
        self.tasks: dict[Kind, dict[str, TaskCounts]] = {kind: {} for kind in KINDS}

    def end(
        self, kind: Kind, task: str, outcome: str, wait_seconds: float, run_seconds: float
    ) -> None:
        """A task has left its slot."""
        self.finished[kind][outcome] += 1
        self.runs[kind].add(run_seconds)
        tasks = self.tasks[kind]
        counts = tasks.get(task)
        if counts is None:
            counts = self._new(tasks, task)
        counts.outcomes[outcome] = counts.outcomes.get(outcome, 0) + 1
        counts.wait_seconds += wait_seconds
        counts.run_seconds += run_seconds

    def _new(self, tasks: dict[str, TaskCounts], task: str) -> TaskCounts:
        return tasks.setdefault(task if len(tasks) < TASKS else OTHERS, TaskCounts())
