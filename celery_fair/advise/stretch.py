"""How much of a load is simulated in each run: enough to know, and no more than there is time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from celery_fair.advise.load import (
    Load,
    batch_of,
    busiest,
    recorded_streams,
    streams_of,
)
from celery_fair.advise.targets import Done, Target
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.trace import Arrival

TASK_SECONDS: Final = 40e-6
TICK_SECONDS: Final = 80e-6
"""Of a usual core, for each task and for each look at the broker (docs/simulator.md, Cost)."""
USUAL_RUN: Final = 0.3
LONGEST_RUN: Final = 1.5
"""So much of a core's time a run may take; longer ones only where a whole night counts."""
_GRACE_SECONDS: Final = 10.0
_ENOUGH_WAITS: Final = 400
_ENOUGH_RUNS: Final = 20
_ENOUGH_BATCH: Final = 200
_AT_LEAST_SECONDS: Final = 60.0
_LOST: Final = 0.1
"""Of the time until a deadline: batch that comes later need not be done by then."""
_LATE: Final = 1.5
"""So long after it is looked, times the whole, to tell by how much it is missed."""


def cost(scenario: Scenario, tasks_a_second: float) -> float:
    """Seconds of a usual core that a simulated second takes."""
    ticks = scenario.workers / scenario.sensor_seconds
    return tasks_a_second * TASK_SECONDS + ticks * TICK_SECONDS


def stated(scenario: Scenario, targets: Sequence[Target], *, is_given: bool) -> tuple[Load, float]:
    """The load as it was stated, and what a run of it costs; ``is_given``: so is its length."""
    scenario = replace(scenario, grace=min(scenario.grace, _GRACE_SECONDS))
    streams = streams_of(scenario)
    a_second = sum(one.rate for one in streams.values())
    if scenario.batch.backlog:
        mean = max(streams[BATCH].mean_seconds, 1e-3)
        a_second += max(scenario.workers * scenario.slots - streams[INTERACTIVE].slots, 1) / mean
    each = cost(scenario, a_second)
    done = next((one for one in targets if isinstance(one, Done)), None)
    if done is not None:
        return _until_done(scenario, done, each)
    if not is_given:
        means = [one.mean_seconds for one in streams.values() if one.rate or scenario.batch.backlog]
        rate = streams[INTERACTIVE].rate
        enough = max(
            USUAL_RUN / each, _ENOUGH_WAITS / rate if rate else 0, _ENOUGH_RUNS * max(means)
        )
        seconds = max(min(enough, LONGEST_RUN / each), _AT_LEAST_SECONDS)
        warmup = 60.0 + min(3 * max(means), seconds)
        scenario = replace(scenario, warmup=round(warmup), duration=float(round(seconds)))
    return Load(scenario, streams), each * (scenario.end + scenario.grace)


def _until_done(scenario: Scenario, done: Done, each: float) -> tuple[Load, float]:
    at_once = sum(one.size for one in scenario.batch.arrivals if not one.rate)
    each_task = TASK_SECONDS * at_once / done.seconds
    scale = min(LONGEST_RUN / 3 / ((each + each_task) * done.seconds), 1.0)
    scale = min(max(scale, _ENOUGH_BATCH / at_once), 1.0)
    tasks = round(at_once * scale)
    scale = tasks / at_once
    arrivals = [
        one if one.rate else replace(one, size=max(round(one.size * scale), 1))
        for one in scenario.batch.arrivals
    ]
    tasks = sum(one.size for one in arrivals if not one.rate)
    seconds = done.seconds * scale
    scenario = replace(
        scenario,
        batch=replace(scenario.batch, arrivals=tuple(arrivals)),
        warmup=0.0,
        duration=seconds * _LATE,
    )
    load = Load(scenario, streams_of(scenario), tasks, 0.0, scale)
    return load, (each + each_task) * seconds


def recorded(
    scenario: Scenario, arrivals: Sequence[Arrival], targets: Sequence[Target], *, whole: bool
) -> tuple[Load, float]:
    """A recorded day, or the busiest part of one that takes too long; and what a run costs."""
    span = max(arrivals[-1].at, 1.0)
    streams = recorded_streams(arrivals, span)
    each = cost(scenario, len(arrivals) / span)
    done = next((one for one in targets if isinstance(one, Done)), None)
    if done is not None:
        by = float("inf") if done.seconds >= span else done.seconds * (1 - _LOST)
        seconds = max(span, done.seconds * _LATE)
        scenario = replace(scenario, warmup=0.0, duration=seconds)
        load = Load(scenario, streams, batch_of(arrivals, by), by, recorded=tuple(arrivals))
        return load, each * span + cost(scenario, 0) * min(seconds - span, span)
    if whole or each * span <= LONGEST_RUN:
        return Load(scenario, streams, recorded=tuple(arrivals)), each * span
    return _part(scenario, arrivals, LONGEST_RUN / 2 / each, each, span)


def _part(
    scenario: Scenario, arrivals: Sequence[Arrival], seconds: float, each: float, span: float
) -> tuple[Load, float]:
    start = busiest(arrivals, seconds)
    warmup = min(start, seconds / 5)
    begin = start - warmup
    part = [one for one in arrivals if begin <= one.at < start + seconds]
    begin = part[0].at
    part = [one._replace(at=one.at - begin) for one in part]
    scenario = replace(scenario, warmup=warmup, duration=seconds)
    cut = (
        f"the busiest {seconds / 60:.0f} min, from {start / 3600:.1f} h on, of {span / 3600:.1f} h"
    )
    load = Load(scenario, recorded_streams(part, warmup + seconds), recorded=tuple(part), cut=cut)
    return load, each * (warmup + seconds) * len(part) / (seconds * len(arrivals) / span)


__all__ = ["cost", "recorded", "stated"]
