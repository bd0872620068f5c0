"""Nothing interactive for two minutes: how full are the slots that batch may have?

``python -m tests.benchmarks.quiet``, with the ruler on the path: its load, its workers and its
journal, but its table has only the mean of all slots, and one of them is kept free on purpose.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from mixed_load.load import SCENARIOS, Arrivals
from mixed_load.trial import Outcome, run_apart

from celery_fair.settings import FairSettings

# The ruler reads a rate of 0 as "all at the start"; at this one, none comes in a lifetime.
NEVER = Arrivals(rate=1e-12)
# Long enough for the cold start, in which half of the slots are kept free.
WARMUP_SECONDS = 15.0
DURATION_SECONDS = 120.0


def main() -> None:
    options = _parser().parse_args()
    load = replace(
        SCENARIOS["steady"], arrivals=NEVER, warmup=options.warmup, duration=options.duration
    )
    rounds = []
    for index in range(options.rounds):
        turn = replace(load, seed=load.seed + index)
        outcome = run_apart(options.contestant, options.broker, turn, options.pool, options.log)
        rounds.append(fill(outcome, outcome.slots - FairSettings().reserve_min))
        print(f"round {index + 1}: {rounds[-1]}", flush=True)
        document = {
            "load": {
                "slots": load.slots,
                "warmup": load.warmup,
                "duration": load.duration,
                "batch_service": str(load.batch_service),
                "batch_backlog": load.batch_backlog,
            },
            "rounds": rounds,
        }
        options.json.write_text(json.dumps(document, indent=1))


def fill(outcome: Outcome, slots: int) -> dict[str, float]:
    """The share of the slot-seconds of ``slots`` slots, and of the time with all of them full."""
    start, end = outcome.window
    filled = all_filled = 0.0
    for seconds, running in _steps(outcome, start, end):
        filled += seconds * min(running, slots) / slots
        all_filled += seconds * (running >= slots)
    return {"filled": filled / (end - start), "all_filled": all_filled / (end - start)}


def _steps(outcome: Outcome, start: float, end: float) -> Iterator[tuple[float, int]]:
    """How many tasks ran, and for how long, between one start or finish and the next."""
    changes = [(begun.at, 1) for begun in outcome.starts]
    changes += [(at, -1) for at in outcome.finishes.values()]
    changes.sort()
    running = sum(change for at, change in changes if at < start)
    inside = [(start, 0), *(change for change in changes if start <= change[0] < end), (end, 0)]
    for (at, change), (later, _) in pairwise(inside):
        running += change
        yield later - at, running


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quiet")
    add = parser.add_argument
    add("--broker", required=True)
    add("--contestant", required=True)
    add("--pool", default="threads")
    add("--rounds", type=int, default=1)
    add("--warmup", type=float, default=WARMUP_SECONDS)
    add("--duration", type=float, default=DURATION_SECONDS)
    add("--json", type=Path, required=True)
    add("--log", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
