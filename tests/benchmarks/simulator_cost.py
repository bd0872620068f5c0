"""How many tasks a second the simulator does on one core, and how much memory it takes.

``python -m tests.benchmarks.simulator_cost``: the best of several short runs, by CPU time, since
others on the machine only ever make one slower. Memory is the largest that the process has had.
"""

from __future__ import annotations

import resource
import sys
import time

from celery_fair.policy import KINDS
from celery_fair.sim import PLAIN, Arrivals, FairSetup, Scenario, Work, exponential
from celery_fair.sim.experiment import simulate
from celery_fair.sim.setups import Setup

RUNS = 10


def load(workers: int = 1, slots: int = 8, seconds: float = 60.0, burst: int = 0) -> Scenario:
    """Seven of eight slots in use: 60 interactive tasks a second of 50 ms, 20 of batch of 0.2 s."""
    each = workers * slots / 8
    batch = Arrivals(0, burst) if burst else Arrivals(20 * each)
    return Scenario(
        "cost",
        Work(exponential(0.05), (Arrivals(60 * each),)),
        Work(exponential(0.2), (batch,)),
        workers=workers,
        slots=slots,
        warmup=0.0,
        duration=seconds,
        grace=0.0,
        fleet_delay_seconds=max(1.0, workers / 50, workers**2 / 50_000) if workers > 1 else None,
    )


def measure(name: str, scenario: Scenario, setup: Setup, runs: int) -> None:
    best, ended = 0.0, 0
    for _ in range(runs):
        began = time.process_time()
        trial = simulate(scenario, setup)
        ended = sum(trial.of[kind].ended for kind in KINDS)
        best = max(best, ended / (time.process_time() - began))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:<34} {setup.name:<12} {ended:>9} {best:>9.0f}/s {megabytes:>6.0f} MB", flush=True)


def main() -> int:
    print(f"{'load':<34} {'set-up':<12} {'tasks':>9} {'speed':>11} {'memory':>9}")
    for setup in (FairSetup(), PLAIN["strict-late"]):
        measure("1 worker of 8 slots", load(), setup, RUNS)
        measure("1 worker of 32 slots", load(slots=32, seconds=15), setup, RUNS)
    measure("the same, 20 times as long", load(seconds=1200), FairSetup(), 1)
    measure("10 million wait from the start", load(burst=10_000_000), PLAIN["strict-late"], 1)
    if "--large" in sys.argv:
        measure("1,000 workers of 8 slots", load(workers=1000, seconds=5), FairSetup(), 1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
