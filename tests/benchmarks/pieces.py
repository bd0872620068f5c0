"""Batch tasks of half a minute made of short pieces: what yielding gives, and what it costs.

``python -m tests.benchmarks.pieces``, with the ruler on the path: its load, its workers and its
journal. Its table counts whole tasks, of which too few end in a window; here pieces are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import quantiles
from typing import Any

from mixed_load.load import Arrivals, Load, Span
from mixed_load.metrics import pool as pooled
from mixed_load.metrics import summarise
from mixed_load.trial import Outcome, run_apart

from tests.benchmarks.pieces_app import FLAG_SEEN, MARK, PIECE_DONE, PIECES_VARIABLE

#: More at once than the reserve keeps free, and 1 % of the slots' time.
LOAD = Load(
    name="pieces",
    arrivals=Arrivals(rate=0.2, size=8, poisson=False),
    interactive_service=Span(0.05, 0.05),
    batch_service=Span(25.0, 35.0),
    batch_backlog=40,
    warmup=60.0,
    duration=100.0,
    grace=30.0,
)


def main() -> None:
    options = _parser().parse_args()
    load = replace(LOAD, warmup=options.warmup, duration=options.duration, grace=options.grace)
    rounds: dict[str, list[dict[str, Any]]] = {spec: [] for spec in options.contestants.split(",")}
    summaries: dict[str, list[Any]] = {spec: [] for spec in rounds}
    for index in range(options.rounds):
        for spec in list(rounds)[:: 1 if index % 2 == 0 else -1]:
            turn = replace(load, seed=load.seed + index)
            outcome, marks = _trial(spec, turn, options)
            rounds[spec].append(_measured(outcome, marks))
            summaries[spec].append(summarise(outcome))
            print(f"round {index + 1}: {spec}: {rounds[spec][-1]}", flush=True)
        document = {
            "load": {name: str(value) for name, value in vars(load).items()},
            "contestants": {
                spec: {"pooled": _pooled(summaries[spec], measured), "rounds": measured}
                for spec, measured in rounds.items()
            },
        }
        options.json.write_text(json.dumps(document, indent=1))


def _trial(
    spec: str, load: Load, options: argparse.Namespace
) -> tuple[Outcome, list[tuple[float, int]]]:
    with tempfile.TemporaryDirectory(prefix="fair-pieces-") as folder:
        path = Path(folder) / "marks"
        path.touch()
        os.environ[PIECES_VARIABLE] = str(path)  # the trial's process and its workers inherit it
        outcome = run_apart(spec, options.broker, load, options.pool, options.log)
        return outcome, list(MARK.iter_unpack(path.read_bytes()))


def _measured(outcome: Outcome, marks: Iterable[tuple[float, int]]) -> dict[str, Any]:
    """Of one trial: pieces a second, and what came between a burst and its tasks' starts."""
    start, end = outcome.window
    inside = sorted((at, what) for at, what in marks if start <= at < end)
    flags = [at for at, what in inside if what == FLAG_SEEN]
    bursts = sorted(set(outcome.sent["interactive"].values()))
    starts = sorted(begun.at for begun in outcome.starts if begun.kind == "interactive")
    return {
        "pieces_per_second": sum(what == PIECE_DONE for _, what in inside) / (end - start),
        "yields": len(flags),
        "react_seconds": [_since(bursts, at) for at in flags],
        "slot_seconds": [found for at in flags if (found := _until(starts, at)) is not None],
    }


def _since(moments: list[float], at: float) -> float:
    """How long ago the last of these moments was; a burst is published within some milliseconds."""
    return at - moments[max(bisect_right(moments, at) - 1, 0)]


def _until(moments: list[float], at: float) -> float | None:
    """How long it takes to the next of these moments."""
    index = bisect_right(moments, at)
    return moments[index] - at if index < len(moments) else None


def _pooled(summaries: list[Any], measured: list[dict[str, Any]]) -> dict[str, Any]:
    values = {name: v for name, v in pooled(summaries).as_json().items() if name != "waits"}
    rate = sum(one["pieces_per_second"] for one in measured) / len(measured)
    return {
        **values,
        "batch_per_second": rate,
        "yields": sum(one["yields"] for one in measured),
        "react": _spread(seconds for one in measured for seconds in one["react_seconds"]),
        "slot_back": _spread(seconds for one in measured for seconds in one["slot_seconds"]),
    }


def _spread(seconds: Iterable[float]) -> Mapping[str, float] | None:
    found = sorted(seconds)
    if len(found) < 2:
        return None
    twentieths = quantiles(found, n=20)
    return {"p50": twentieths[9], "p95": twentieths[18], "max": found[-1]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pieces")
    add = parser.add_argument
    add("--broker", required=True)
    add("--contestants", required=True)
    add("--pool", default="threads")
    add("--rounds", type=int, default=1)
    add("--warmup", type=float, default=LOAD.warmup)
    add("--duration", type=float, default=LOAD.duration)
    add("--grace", type=float, default=LOAD.grace)
    add("--json", type=Path, required=True)
    add("--log", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
