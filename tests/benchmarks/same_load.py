"""The ruler's loads for the simulator: the same arrivals and run times, task by task.

Importable where the ruler's folder is on the path.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean

from mixed_load.load import SCENARIOS, Load

from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.sim import PLAIN, FairSetup, Scenario, Work, run
from celery_fair.sim.setups import Setup, without_batch
from celery_fair.sim.trace import Arrival

SUBMIT_SECONDS = 0.001
"""How long the ruler takes to submit a task: batch is there so much earlier than the rest."""
ROUND_TRIP_SECONDS = 0.002
START_SECONDS = 0.002

SETUPS: dict[str, Setup] = {
    "fair": FairSetup(),
    "fair_reserve_1": FairSetup(PolicySettings(reserve=1)),
    "fair_reserve_2": FairSetup(PolicySettings(reserve=2)),
    "fleet": FairSetup(),
    "two-queues-strict": PLAIN["strict"],
    "two-queues-strict-late": PLAIN["strict-late"],
    "redis-priority-late": PLAIN["priority-late"],
    "rabbit-priority-late": PLAIN["priority-late"],
    **PLAIN,
}


def simulated(scenario: str, broker: str, name: str, rounds: int) -> dict[str, float]:
    """Pooled as the ruler pools: waits of all rounds together, the mean of the batch rates."""
    setup = SETUPS[name]
    if broker == "rabbitmq" and name == "reserved-slot-late":
        setup = PLAIN["reserved-slot-in-turn-late"]
    waits: list[float] = []
    rates: list[float] = []
    for index in range(rounds):
        load = replace(SCENARIOS[scenario], seed=SCENARIOS[scenario].seed + index)
        found, rate = _round(load, broker, name, setup)
        waits += found
        rates.append(rate)
    waits.sort()
    return {"p50": _quantile(waits, 0.5), "p95": _quantile(waits, 0.95), "batch": fmean(rates)}


def _round(load: Load, broker: str, name: str, setup: Setup) -> tuple[list[float], float]:
    scenario = scenario_of(load, broker, workers=load.slots if name == "fleet" else 1)
    if name == "interactive-only":
        scenario = without_batch(scenario)
    result = run(scenario, setup, load.seed)
    waits = [wait + START_SECONDS for wait in result.waits(INTERACTIVE)]
    if load.endless:
        return waits, result.rate(BATCH)
    last = max((task.finished for task in result.tasks), default=math.nan)
    return waits, len(result.of(BATCH)) / last


def scenario_of(load: Load, broker: str, workers: int = 1) -> Scenario:
    """The load from the moment that its first batch task is submitted."""
    head = load.batch_backlog * SUBMIT_SECONDS
    batch = load.batch()
    step = SUBMIT_SECONDS
    arrivals = [
        Arrival(head + (offset or index * step), INTERACTIVE, seconds)
        for index, (offset, seconds) in enumerate(load.interactive())
    ]
    if not load.endless:
        sizes = [next(batch) for _ in range(load.batch_backlog)]
        there = [Arrival(index * step, BATCH, seconds) for index, seconds in enumerate(sizes)]
        arrivals = sorted([*there, *arrivals])
    endless = load.batch_backlog if load.endless else 0
    return Scenario(
        load.name,
        interactive=Work(lambda source: 0.0),
        batch=Work(lambda source: next(batch), backlog=endless, in_step=True),
        workers=workers,
        slots=load.slots // workers,
        warmup=load.warmup + (head if load.endless else 0.0),
        duration=load.duration,
        grace=load.grace,
        round_trip_seconds=ROUND_TRIP_SECONDS,
        start_seconds=START_SECONDS,
        poll_seconds=1.0 if broker == "redis" else 0.0,
        pushes=broker == "rabbitmq",
        fleet_delay_seconds=1.0 if workers > 1 else None,
        trace=lambda: iter(arrivals),
    )


def _quantile(waits: list[float], part: float) -> float:
    return waits[max(math.ceil(part * len(waits)), 1) - 1] if waits else math.nan
