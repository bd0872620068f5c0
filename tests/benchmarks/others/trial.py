"""One contestant under one load, in a process of its own and in its own environment.

``python -m tests.benchmarks.others.trial CONTESTANT --broker URL … --output run.json``
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mixed_load.journal import JOURNAL_VARIABLE, JournalReader
from mixed_load.load import Load
from mixed_load.metrics import summarise
from mixed_load.producers import BatchProducer, InteractiveProducer
from mixed_load.trial import Outcome, _Trial

from tests.benchmarks.others import loads
from tests.benchmarks.others.contestants import (
    BROKER_VARIABLE,
    CONTESTANTS,
    SETUP_VARIABLE,
    Contestant,
)
from tests.benchmarks.others.processes import running

PACKAGES = (
    "celery", "kombu", "celery-fair", "celery-ranch", "dramatiq", "huey", "rq", "arq", "redis",
    "pika", "amqp",
)  # fmt: skip


def run(contestant: Contestant, broker: str, load: Load, log: Path) -> Outcome:
    """The ruler's trial, on whatever workers the contestant's adapter starts.

    The broker must be empty.
    """
    with tempfile.TemporaryDirectory(prefix="fair-others-") as place:
        journal = Path(place) / "journal"
        # Before the adapter is imported: it makes its app at import, as in the workers.
        os.environ[JOURNAL_VARIABLE] = str(journal)
        os.environ[BROKER_VARIABLE] = broker
        os.environ[SETUP_VARIABLE] = contestant.setup
        adapter: Any = importlib.import_module(contestant.module)
        workers = adapter.workers(load.slots)
        with running(workers, log) as fleet:
            trial = _Trial(
                load=load,
                backlog=load.batch_backlog if contestant.takes_batch else 0,
                batch=BatchProducer(partial(adapter.submit, "batch"), load.batch()),
                interactive=InteractiveProducer(
                    partial(adapter.submit, "interactive"), load.interactive()
                ),
                reader=JournalReader(journal),
                workers=fleet,
            )
            trial.wait_until_ready(sum(worker.reports for worker in workers))
            return trial.run(sum(worker.slots for worker in workers))


def document(outcome: Outcome) -> dict[str, Any]:
    """What a run was like, as JSON values."""
    summary = summarise(outcome)
    start, end = outcome.window
    used = {kind: _slots_used(outcome, kind) for kind in ("interactive", "batch")}
    return {
        "slots": outcome.slots,
        "seconds": end - start,
        "waits": [[round(wait.seconds, 5), wait.started] for wait in summary.waits],
        "interactive_slots": used["interactive"],
        "batch_slots": used["batch"],
        **{
            name: getattr(summary, name)
            for name in (
                "interactive_completed", "batch_per_second", "lost", "unfinished",
                "executed_twice", "producer_lag_max", "worker_cpu_seconds", "stopped_cleanly",
            )
        },
        "longest_batch_gap": summary.longest_batch_gap if outcome.sent["batch"] else None,
        "longest_without_batch": _longest_without_batch(outcome) if outcome.sent["batch"] else None,
        "busy": summary.machine,
    }  # fmt: skip


def _slots_used(outcome: Outcome, kind: str) -> float:
    """How many slots had a task of this kind, on average over the window."""
    start, end = outcome.window
    seconds = (
        max(min(outcome.finishes.get(begun.task_id, end), end) - max(begun.at, start), 0.0)
        for begun in outcome.starts
        if begun.kind == kind
    )
    return sum(seconds) / (end - start)


def _longest_without_batch(outcome: Outcome) -> float:
    """The longest time in which no batch task ran at all, though some always waited."""
    begin, end = outcome.window[0], outcome.observed_until
    covered = longest = 0.0
    for begun in sorted(outcome.starts, key=lambda begun: begun.at):
        if begun.kind == "batch":
            longest = max(longest, min(begun.at, end) - max(covered, begin))
            covered = max(covered, outcome.finishes.get(begun.task_id, end))
    return max(longest, end - max(covered, begin))


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.others.trial")
    parser.add_argument("contestant", choices=CONTESTANTS)
    parser.add_argument("--broker", required=True, help="an empty one")
    parser.add_argument("--load", choices=loads.NAMES, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--duration", type=float)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()
    load = loads.load(options.load, options.seed)
    if options.duration:
        load = replace(load, duration=options.duration)
    outcome = run(CONTESTANTS[options.contestant], options.broker, load, options.log)
    found = {"digest": loads.digest_of(load), "versions": versions(), **document(outcome)}
    options.output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
