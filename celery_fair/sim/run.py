"""Run a scenario once, and keep each task of it."""

from __future__ import annotations

from celery_fair.policy import PolicySettings
from celery_fair.sim.recorder import Everything
from celery_fair.sim.result import Result
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.setups import FairSetup, Setup
from celery_fair.sim.simulation import Simulation


def run(scenario: Scenario, setup: PolicySettings | Setup, seed: int = 1) -> Result:
    """Simulate the scenario once; the same seed gives the same arrivals whatever the setup."""
    if isinstance(setup, PolicySettings):
        setup = FairSetup(setup)
    kept = Everything()
    simulation = Simulation(scenario, setup, seed, kept)
    simulation.run()
    return Result(
        start=scenario.warmup,
        end=scenario.end,
        observed_until=simulation.until,
        slots=scenario.workers * scenario.slots,
        tasks=kept.tasks,
        mode_changes=sum(worker.mode_changes() for worker in simulation.workers),
        cut_short=simulation.cut_short,
    )
