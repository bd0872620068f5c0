"""What has happened in one worker since it started, by kind and by task."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol

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

    def add(self, durations: list[float]) -> None:
        """``durations`` is sorted in place: many at once cost little more than one."""
        durations.sort()
        before = 0
        for bucket, bound in enumerate(BOUNDS):
            below = bisect_right(durations, bound, before)
            self.buckets[bucket] += below - before
            before = below
        self.buckets[-1] += len(durations) - before
        self.sum_seconds += sum(durations)

    def report(self) -> dict[str, object]:
        return {"buckets": list(self.buckets), "sum": round(self.sum_seconds, 6)}


def quantile(counts: Sequence[int], q: float) -> float | None:
    """Return the quantile of a histogram in seconds; ``None`` of an empty one.

    Interpolated inside its bucket as Prometheus does it (``histogram_quantile``); in the last
    bucket, which has no upper end, it is that bucket's lower one.
    """
    ends = list(accumulate(counts))
    if not ends or ends[-1] <= 0:
        return None
    rank = q * ends[-1]
    place = bisect_left(ends, rank)
    if place >= len(BOUNDS):
        return BOUNDS[-1]
    low = BOUNDS[place - 1] if place else 0.0
    before = ends[place] - counts[place]
    return low + (BOUNDS[place] - low) * (rank - before) / counts[place]


class End(Protocol):
    """What is counted of a task that has left its slot; times are on one clock, in seconds."""

    outcome: Any
    started_at: float
    finished_at: float
    wait_seconds: float | None


class TaskCounts:
    """One task's: how often it ended in which way, and its waits and runs added up."""

    __slots__ = ("outcomes", "run_seconds", "wait_seconds", "waits")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.wait_seconds = self.run_seconds = 0.0
        self.waits = 0
        """How many waits are known; a message without a header says nothing of one."""


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

    def end(self, kind: Kind, task: str, ends: Sequence[End]) -> None:
        """Tasks of one name have left their slots."""
        runs = [end.finished_at - end.started_at for end in ends]
        tasks = self.tasks[kind]
        counts = tasks.get(task) or self._new(tasks, task)
        waits = [end.wait_seconds for end in ends if end.wait_seconds is not None]
        counts.waits += len(waits)
        counts.wait_seconds += sum(waits)
        counts.run_seconds += sum(runs)
        for outcome, number in Counter(end.outcome for end in ends).items():
            self.finished[kind][outcome] += number
            counts.outcomes[outcome] = counts.outcomes.get(outcome, 0) + number
        self.runs[kind].add(runs)

    def _new(self, tasks: dict[str, TaskCounts], task: str) -> TaskCounts:
        return tasks.setdefault(task if len(tasks) < TASKS else OTHERS, TaskCounts())
