"""Runs, read and pooled: one row for each contestant under each load, failed or not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tests.benchmarks.others.contestants import CONTESTANTS

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
YARDSTICK = "fifo"
"""Nothing takes more of the slots for batch: what each way costs batch is seen beside it."""

Run = Mapping[str, Any]


def read(folder: Path) -> list[Run]:
    """All runs that are kept in the folder, the failed ones too."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def unpaired(runs: Iterable[Run]) -> list[str]:
    """The loads and seeds under which not all had the same arrivals and run times; none should."""
    digests: dict[str, set[str]] = {}
    for run in runs:
        if "failed" not in run:
            digests.setdefault(f"{run['load']}, seed {run['seed']}", set()).add(run["digest"])
    return [which for which, found in digests.items() if len(found) > 1]


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant under one load: the runs of all seeds, and those that failed."""

    contestant: str
    load: str
    runs: Sequence[Run]
    failures: Sequence[Run]
    yardsticks: Mapping[int, float]

    @property
    def waits(self) -> list[tuple[float, bool]]:
        """Seconds, and whether the task started; what never did has waited at least so long."""
        return sorted((seconds, started) for run in self.runs for seconds, started in run["waits"])

    def wait(self, part: float) -> tuple[float, bool]:
        """A quantile of the waits, and whether it is exact and not only a lower bound."""
        waits = self.waits
        if not waits:
            return math.nan, True
        rank = max(math.ceil(part * len(waits)), 1)
        return waits[rank - 1][0], all(started for _, started in waits[:rank])

    @property
    def never_started(self) -> int:
        return sum(not started for _, started in self.waits)

    def mean(self, name: str) -> float:
        return fmean(run[name] for run in self.runs) if self.runs else math.nan

    def total(self, name: str) -> int:
        return sum(run[name] for run in self.runs)

    @property
    def batch_share(self) -> float:
        """The part of all slot time that batch had."""
        parts = [run["batch_slots"] / run["slots"] for run in self.runs]
        return fmean(parts) if parts else math.nan

    @property
    def batch_ratio(self) -> float:
        """Batch's slot time beside that of the yardstick with the same seed; the median of them."""
        ratios = [
            run["batch_slots"] / self.yardsticks[run["seed"]]
            for run in self.runs
            if self.yardsticks.get(run["seed"])
        ]
        return median(ratios) if ratios else math.nan

    def most(self, name: str) -> float:
        """Of all runs; what doesn't apply to a run is None there."""
        found = [run[name] for run in self.runs]
        return max((one for one in found if one is not None), default=math.nan)


def rows(runs: Sequence[Run], load: str) -> list[Row]:
    """In the order of ``CONTESTANTS``; whoever has no run under this load has no row."""
    mine = [run for run in runs if run["load"] == load]
    yardsticks = {
        run["seed"]: run["batch_slots"]
        for run in mine
        if run["contestant"] == YARDSTICK and "failed" not in run
    }
    found = []
    for name in CONTESTANTS:
        its = [run for run in mine if run["contestant"] == name]
        if its:
            done = [run for run in its if "failed" not in run]
            failed = [run for run in its if "failed" in run]
            found.append(Row(name, load, done, failed, yardsticks))
    return found


HEADINGS = (
    "contestant", *QUANTILES, "never started", "batch/s", "batch's slot time", "× fifo",
    "no batch began", "no batch ran", "lost", "twice",
    "published late", "failed",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """A row as text, under ``HEADINGS``; ``≥`` where some had not started when last looked at."""
    sent = len(row.waits)
    return [
        row.contestant,
        *(_wait(*row.wait(part)) for part in QUANTILES.values()),
        f"{row.never_started} of {sent}" if row.never_started else "0",
        _number(row.mean("batch_per_second"), "{:.2f}"),
        _number(row.batch_share, "{:.0%}"),
        _number(row.batch_ratio, "{:.2f}"),
        _number(row.most("longest_batch_gap"), "{:.1f} s"),
        _number(row.most("longest_without_batch"), "{:.1f} s"),
        str(row.total("lost")),
        str(row.total("executed_twice")),
        _number(row.most("producer_lag_max"), "{:.2f} s"),
        f"{len(row.failures)} of {len(row.failures) + len(row.runs)}" if row.failures else "0",
    ]


def markdown(found: Sequence[Row]) -> str:
    lines = [HEADINGS, ["---"] * len(HEADINGS), *(cells(row) for row in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _wait(seconds: float, exact: bool) -> str:
    if math.isnan(seconds):
        return "–"
    digits = "{:.3f}" if seconds < 1 else "{:.2f}"
    return ("" if exact else "≥ ") + digits.format(seconds)


def _number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else form.format(value)


def spread(row: Row, figure: Callable[[Row], float]) -> tuple[float, float]:
    """The least and the most of a figure over the seeds."""
    each = [figure(Row(row.contestant, row.load, [run], (), row.yardsticks)) for run in row.runs]
    return (min(each), max(each)) if each else (math.nan, math.nan)
