"""What one run of the simulator says of the targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from celery_fair.advise.load import Load
from celery_fair.advise.targets import Done, Rate, Target, Wait
from celery_fair.policy import BATCH, Kind, PolicySettings
from celery_fair.sim.histogram import Histogram
from celery_fair.sim.recorder import Statistics
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.setups import FairSetup
from celery_fair.sim.simulation import Simulation
from celery_fair.sim.task import Task

_LEAST_SECONDS: Final = 300.0
"""Interactive tasks are looked at for so long, also where batch is done before."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What can be chosen. ``slots`` are those of each worker; ``yields_every`` 0 is never."""

    slots: int
    settings: PolicySettings
    yields_every: float = 0.0

    def with_settings(self, **values: object) -> Candidate:
        """The same with other settings."""
        return replace(self, settings=replace(self.settings, **values))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Run:
    """One seed. ``done_seconds``: when batch was done, or would have been at the pace it had."""

    waits: dict[Kind, Histogram]
    batch_rate: float
    batch_kept_up: float
    batch_slots: float
    done_seconds: float

    def of(self, target: Target) -> float:
        """The figure that the target is about."""
        if isinstance(target, Wait):
            found = self.waits[target.kind].quantile(target.quantile)
            return 0.0 if math.isnan(found) else found
        if isinstance(target, Rate):
            return self.batch_rate
        return self.done_seconds if isinstance(target, Done) else self.batch_kept_up


def run(load: Load, candidate: Candidate, seed: int) -> Run:
    """Simulate once; the same seed gives the same arrivals and run times to all candidates."""
    scenario = load.seeded(seed)
    scenario = replace(
        scenario,
        slots=candidate.slots,
        batch=replace(scenario.batch, yields_every=candidate.yields_every),
    )
    sums = _Watching(scenario, load)
    simulation = Simulation(scenario, FairSetup(candidate.settings), seed, sums)
    ended = scenario.end
    try:
        simulation.run(sums.look if load.batch_tasks else None)
    except _DoneError:
        ended = max(sums.done_at, scenario.warmup + 1e-3)
    seconds = ended - scenario.warmup
    batch = sums.of[BATCH]
    late = batch.never_started / batch.waits.count if batch.waits.count else 0.0
    return Run(
        {kind: part.waits for kind, part in sums.of.items()},
        batch.ended_in_window / seconds,
        1.0 - late,
        batch.slot_seconds / seconds,
        sums.done_seconds(scenario.end) if load.batch_tasks else math.nan,
    )


class _DoneError(Exception):
    """Batch has ended, and nothing that comes later counts."""


class _Watching(Statistics):
    """Sums that also know when batch is done. Interactive tasks count while there is any."""

    def __init__(self, scenario: Scenario, load: Load) -> None:
        super().__init__(scenario.warmup, scenario.end)
        self._load = load
        self._left_to_start = self._left_to_end = load.batch_tasks
        self._least = load.recorded[-1].at if load.recorded else _LEAST_SECONDS
        self._stops = bool(load.batch_tasks) and not load.recorded
        self.last_start = self.done_at = self._work = 0.0

    def look(self, part: float) -> None:
        """End the run where it has nothing more to tell."""
        if not self._left_to_end and part * self.end_at > self._least:
            raise _DoneError

    def start(self, task: Task, now: float) -> None:
        if self._counts(task) and task.waited_until == math.inf:
            self._left_to_start -= 1
            self._work += task.service
            self.last_start = now
        elif self._stops and not self._left_to_end and task.published > self._until():
            task.waited_until = now
        super().start(task, now)

    def stop(self, task: Task, now: float, *, done: bool) -> None:
        super().stop(task, now, done=done)
        if done and self._counts(task):
            self._left_to_end -= 1
            self.done_at = now

    def _until(self) -> float:
        return max(self.done_at, self._least)

    def _counts(self, task: Task) -> bool:
        return (
            bool(self._load.batch_tasks)
            and task.kind == BATCH
            and task.published <= self._load.published_by
        )

    def done_seconds(self, end: float) -> float:
        """When all of it was done, of the whole time that a scaled load stands for."""
        load = self._load
        if self._left_to_end:
            ended = load.batch_tasks - self._left_to_end
            return math.inf if not ended else end * load.batch_tasks / ended / load.scale
        tail = self.done_at - self.last_start
        if load.scale == 1:
            return self.done_at
        # A tenth of the tasks varies more than all of them do: what was drawn is brought to the
        # mean, and what a night of all of them may be above that, one time in twenty, put upon it.
        stream = load.streams[BATCH]
        usual = stream.mean_seconds * load.batch_tasks / max(self._work, 1e-9)
        heavy = 1 + 1.645 * math.sqrt(stream.run_variation * load.scale / load.batch_tasks)
        return self.last_start / load.scale * usual * heavy + tail
