"""Advice on trial: what `fair advise` says of a load, and what real workers then come to.

``python -m tests.benchmarks.advised [ROUNDS]``, with the ruler on the path: its load, its workers
and its journal. Today's settings and the advice get the same arrivals and run times.
"""

from __future__ import annotations

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mixed_load.load import Arrivals as Arriving
from mixed_load.load import Load as Trial
from mixed_load.load import Span
from mixed_load.metrics import summarise
from mixed_load.trial import run_apart

from celery_fair.advise.advice import Advice, advise
from celery_fair.advise.measure import Candidate
from celery_fair.advise.stretch import stated
from celery_fair.advise.targets import parse_batch, parse_slo
from celery_fair.policy import PolicySettings
from celery_fair.sim import Arrivals, Scenario, Work, uniform
from tests.benchmarks import machine
from tests.benchmarks.contestants import fair
from tests.benchmarks.servers import own_server

VARIABLE = "FAIR_BENCH_ADVISED"
SLO, BATCH = "interactive p95 < 1s", "0.9/s"
TODAY = 4
LOAD = Trial(
    name="advised",
    arrivals=Arriving(rate=3.0),
    interactive_service=Span(0.2, 0.6),
    batch_service=Span(2.0, 6.0),
    batch_backlog=40,
    warmup=65.0,
    duration=60.0,
)

#: What a worker loads, with the settings that its environment has.
advised = replace(fair, name="advised", settings=json.loads(os.environ.get(VARIABLE, "{}")))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    found = _advice()
    assert found.today is not None
    assert found.best is not None
    print(json.dumps({"slo": SLO, "batch": BATCH, **machine.versions(), **machine.moment()}))
    with own_server("redis") as server, TemporaryDirectory(prefix="fair-advised-") as folder:
        for name, verdict in (("today", found.today), ("advice", found.best)):
            settings = verdict.candidate.settings
            said = {"reserve": settings.reserve, "batch_share": settings.batch_share}
            os.environ[VARIABLE] = json.dumps(said)
            simulated = {one.target.name: round(one.value.mean, 3) for one in verdict.readings}
            measured = _measured(server.broker.url, verdict.candidate.slots, Path(folder), rounds)
            print(
                name, verdict.candidate.slots, said, verdict.state, simulated, measured, flush=True
            )
    print(json.dumps(machine.moment()))


def _advice() -> Advice:
    scenario = Scenario(
        "advised",
        Work(uniform(0.2, 0.6), (Arrivals(LOAD.arrivals.rate),)),
        Work(uniform(2.0, 6.0), backlog=LOAD.batch_backlog),
        slots=TODAY,
        round_trip_seconds=0.002,
        start_seconds=0.002,
        poll_seconds=1.0,
    )
    targets = [*parse_slo(SLO), parse_batch(BATCH, None)]
    load, cost = stated(scenario, targets, is_given=False)
    today = Candidate(TODAY, PolicySettings())
    return advise(load, targets, today, cost=cost, most_slots=4 * TODAY)


def _measured(url: str, slots: int, folder: Path, rounds: int) -> dict[str, Any]:
    waits: list[float] = []
    rates = []
    for index in range(rounds):
        load = replace(LOAD, slots=slots, seed=LOAD.seed + index)
        outcome = run_apart(
            "tests.benchmarks.advised:advised", url, load, "threads", folder / "log"
        )
        summary = summarise(outcome)
        waits += [one.seconds for one in summary.waits]
        rates.append(round(summary.batch_per_second, 3))
    waits.sort()
    return {"p95": round(waits[math.ceil(0.95 * len(waits)) - 1], 3), "batch_per_second": rates}


if __name__ == "__main__":
    main()
