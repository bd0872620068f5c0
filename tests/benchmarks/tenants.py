"""One tenant with much to do beside twenty with little: ``python -m tests.benchmarks.tenants``.

The big one publishes first, then the others; a worker starts when all waits. Told is when the last
of the others' tasks had ended: with shards, without them, without tenants, and with nobody else's
tasks there, on the same machine and in the same minutes. The ratio to the last of these is the
figure; the seconds are the machine's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from celery_fair import Fair
from tests.apps import mixed
from tests.benchmarks import tenant_costs
from tests.benchmarks.servers import own_server
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.nodes.journal import VARIABLE, Journal
from tests.nodes.worker import WorkerProcess

TASKS = {"interactive": "i.sleep", "batch": "b.sleep"}
SLOTS = 4
PATIENCE_SECONDS = 1800.0
FINISHED = b'"event": "finish"'
SMALL = FINISHED + b', "label": "small'


@dataclass(frozen=True)
class Way:
    """One way to publish the same tasks."""

    name: str
    shards: int
    says_tenants: bool
    big: bool = True


@dataclass(frozen=True)
class Load:
    kind: str
    pool: str
    big: int
    tenants: int
    each: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """What one broker and load came to, by way."""

    broker: str
    load: dict[str, object]
    found: dict[str, dict[str, float]]


def ways(shards: int) -> list[Way]:
    return [
        Way("alone", shards, says_tenants=True, big=False),
        Way("shards", shards, says_tenants=True),
        Way("tenants, no shards", 1, says_tenants=True),
        Way("neither", 1, says_tenants=False),
    ]


def settings(load: Load, way: Way) -> dict[str, str]:
    return {
        f"CELERY_FAIR__{load.kind.upper()}_SHARDS": str(way.shards),
        "CELERY_FAIR__RESERVE": "0",
    }


def publish(broker: Broker, load: Load, way: Way) -> None:
    """The big one's tasks, and then one of each of the others' in turn."""
    app = mixed.make_app(broker)
    try:
        with app.producer_or_acquire() as producer:
            for label, tenant in _tasks(load, way):
                options = {"tenant": tenant} if way.says_tenants else {}
                app.tasks[TASKS[load.kind]].apply_async(
                    (label, load.seconds), producer=producer, ignore_result=True, **options
                )
    finally:
        fair = Fair.of(app)
        assert fair is not None
        fair.admission.close()
        app.close()


def _tasks(load: Load, way: Way) -> Iterator[tuple[str, str]]:
    if way.big:
        yield from ((f"big-{number}", "big") for number in range(load.big))
    for number in range(load.each):
        yield from ((f"small-{of}-{number}", f"small-{of}") for of in range(load.tenants))


def measure(
    load: Load, way: Way, broker: Broker, folder: Path, whole: bool = True
) -> dict[str, float]:
    """Seconds from the first start to the end of the others' last task, and of the very last.

    Without ``whole`` the worker is stopped when the others have ended.
    """
    folder.mkdir()
    journal = Journal(folder / "journal.jsonl")
    environ = settings(load, way)
    with patch.dict("os.environ", environ):
        publish(broker, load, way)
    few = load.tenants * load.each
    text, number = (SMALL, few) if not whole else (FINISHED, few + load.big * way.big)
    worker = WorkerProcess(
        "tests.apps.mixed",
        broker,
        folder / "worker.log",
        pool=load.pool,
        concurrency=SLOTS,
        env={**environ, VARIABLE: str(journal.path)},
    )
    with worker:
        wait_until(
            lambda: journal.path.exists() and _count(journal.path, text) >= number,
            f"{number} tasks to end",
            timeout=PATIENCE_SECONDS,
            poll_seconds=0.5,
        )
        worker.stop(60)
    entries = journal.entries()
    began = min(entry.at for entry in entries)
    ended = {e.label: e.at for e in entries if e.event == "finish"}
    others = max(at for label, at in ended.items() if label.startswith("small"))
    before = sum(at <= others and label.startswith("big") for label, at in ended.items())
    return {
        "others_seconds": round(others - began, 2),
        "all_seconds": round(max(ended.values()) - began, 2),
        "big_before": before,
    }


def _count(path: Path, text: bytes) -> int:
    return path.read_bytes().count(text)


def report(load: Load, broker: str, found: Mapping[str, Mapping[str, float]]) -> list[str]:
    alone = found["alone"]["others_seconds"]
    return [
        f"{broker} {load.pool} {load.kind:11} {name:18} others {one['others_seconds']:7.2f} s "
        f"= {one['others_seconds'] / alone:6.2f} x alone; all {one['all_seconds']:7.2f} s; "
        f"{one['big_before']:.0f} of the big one's before"
        for name, one in found.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.costs:
        tenant_costs.main()
        return
    results: list[Result] = []
    began, longest = time.monotonic(), 0.0
    for _ in range(options.rounds):
        at = time.monotonic()
        if at + longest > began + options.minutes * 60:
            print("no more rounds in that time")
            break
        results += one_round(options)
        longest = max(longest, time.monotonic() - at)
        if options.json is not None:
            options.json.write_text(json.dumps([vars(one) for one in results], indent=1))
    if options.rounds > 1:
        print("\n".join(summary(results)))


def one_round(options: argparse.Namespace) -> Iterator[Result]:
    """Each broker and kind once, in each way."""
    for name in options.broker:
        for kind in options.kind:
            load = Load(
                kind, options.pool, options.big, options.tenants, options.each, options.seconds
            )
            found: dict[str, dict[str, float]] = {}
            for way in ways(options.shards):
                if way.name not in (options.way or [way.name]):
                    continue
                with own_server(name) as server, tempfile.TemporaryDirectory() as place:
                    found[way.name] = measure(
                        load, way, server.broker, Path(place) / "run", not options.others
                    )
            print("\n".join(report(load, name, found)), flush=True)
            yield Result(name, vars(load), found)


def summary(results: Sequence[Result]) -> Iterator[str]:
    """From the least to the most of all rounds, of each broker, kind and way."""
    ratios: dict[tuple[str, ...], list[float]] = defaultdict(list)
    before: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in results:
        alone = one.found["alone"]["others_seconds"]
        for way, found in one.found.items():
            if way != "alone":
                key = one.broker, str(one.load["kind"]), way
                ratios[key].append(found["others_seconds"] / alone)
                before[key].append(found["big_before"])
    for key, found in ratios.items():
        yield (
            f"{' '.join(key)}: {len(found)} rounds, {min(found):.2f} to {max(found):.2f} x alone, "
            f"{min(before[key]):.0f} to {max(before[key]):.0f} of the big one's before"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tenants")
    add = parser.add_argument
    add("--broker", nargs="+", default=["redis", "rabbitmq"])
    add("--kind", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--way", nargs="+", help="only these, `alone` among them")
    add("--others", action="store_true", help="stop when the others' tasks have ended")
    add("--pool", default="threads")
    add("--shards", type=int, default=16)
    add("--big", type=int, default=10_000)
    add("--tenants", type=int, default=20)
    add("--each", type=int, default=10)
    add("--seconds", type=float, default=0.02)
    add("--json", type=Path)
    add("--rounds", type=int, default=1, help="all of it so often")
    add("--minutes", type=float, default=60.0, help="no round begins that may last for longer")
    add("--costs", action="store_true", help="what a tenant costs a message, and nothing else")
    return parser


if __name__ == "__main__":
    main()
