"""What observing workers say of celery-fair, against what comes of it once they enforce.

``python -m tests.benchmarks.counterfactual`` gives real workers a load in observe mode, has it
replayed as ``fair status`` does, switches the same workers to enforce, gives them the same load
again, and prints both side by side with the bound of 15 %.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from celery import Celery

from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import ask
from celery_fair.cli.status_replay import replayed
from celery_fair.observe.counterfactual import agrees, error_of, quantiles
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS
from tests.apps import mixed
from tests.benchmarks import machine
from tests.benchmarks.servers import own_server
from tests.brokers.waiting import wait_until
from tests.nodes.journal import Journal
from tests.nodes.worker import WorkerProcess

PATIENCE_SECONDS = 300.0
MOST_TASKS = 100_000


class Publish(NamedTuple):
    """A task of the load, so many seconds after its beginning."""

    at: float
    kind: str
    label: str
    seconds: float


def load(seconds: float, seed: int, name: str = "steady") -> list[Publish]:
    """For eight slots: people four times a second, batch that nearly fills them, and a backlog.

    ``bursts``: people come by the two dozen, so that they wait for each other under any order.
    """
    source = random.Random(seed)
    if name == "bursts":
        return _bursts(seconds, source)
    found = [Publish(0.0, BATCH, f"b0-{n}", source.uniform(0.5, 1.5)) for n in range(80)]
    for kind, rate, low, high in ((INTERACTIVE, 4.0, 0.05, 0.15), (BATCH, 6.0, 0.5, 1.5)):
        at = source.expovariate(rate)
        while at < seconds:
            found.append(Publish(at, kind, f"{kind}-{len(found)}", source.uniform(low, high)))
            at += source.expovariate(rate)
    return sorted(found)


def _bursts(seconds: float, source: random.Random) -> list[Publish]:
    found = [Publish(0.0, BATCH, f"b0-{n}", source.uniform(0.5, 1.5)) for n in range(60)]
    at = 1.0
    while at < seconds:
        for n in range(24):
            found.append(Publish(at, INTERACTIVE, f"{at:g}-{n}", source.uniform(0.3, 0.7)))
        at += 8.0
    at = source.expovariate(5.0)
    while at < seconds:
        found.append(Publish(at, BATCH, f"b{len(found)}", source.uniform(0.5, 1.5)))
        at += source.expovariate(5.0)
    return sorted(found)


def publish(app: Celery, tasks: Sequence[Publish], round_name: str) -> dict[str, float]:
    """Publish each at its time; return when that was, by label."""
    begun, times = time.time(), {}
    for task in tasks:
        time.sleep(max(begun + task.at - time.time(), 0.0))
        label = f"{round_name} {task.label}"
        times[label] = time.time()
        app.tasks[f"{task.kind[0]}.sleep"].delay(label, task.seconds)
    return times


def waits(journal: Journal, times: dict[str, float]) -> tuple[dict[str, list[float]], float]:
    """How long each kind waited, once all have ended; and when the last of batch did."""

    def ended() -> set[str]:
        return {entry.label for entry in journal.entries() if entry.event == "finish"}

    wait_until(lambda: times.keys() <= ended(), "the end of all", timeout=PATIENCE_SECONDS)
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    last = 0.0
    for entry in journal.entries():
        if entry.label not in times:
            continue
        kind = BATCH if entry.name.startswith("b.") else INTERACTIVE
        if entry.event == "start":
            found[kind].append(entry.at - times[entry.label])
        elif entry.event == "finish" and kind == BATCH:
            last = max(last, entry.at)
    return found, last - min(times.values())


def measure(broker: str, workers: int, tasks: Sequence[Publish], log: Path) -> dict[str, Any]:
    """Both rounds on one broker."""
    began = machine.moment()
    with own_server(broker) as server, _workers(server.broker, workers, log) as journal:
        app = mixed.make_app(server.broker)
        try:
            answers = Answers.of(ask(app, "fair_status", timeout_seconds=5, limit=workers))
            times = publish(app, tasks, "observe")
            observed, observed_end = waits(journal, times)
            told = replayed(app, answers, MOST_TASKS, 5.0)
            assert told is not None
            assert told.of is not None, told.why
            app.control.broadcast("fair_set", arguments={"setting": "mode", "value": "enforce"})
            wait_until(lambda: _enforces(app, workers), "workers that enforce", timeout=30)
            enforced, enforced_end = waits(journal, publish(app, tasks, "enforce"))
        finally:
            app.close()
    return {
        "broker": broker, "workers": workers, "tasks": len(tasks), "began": began,
        "machine": machine.versions(), "told": told.report(),
        "observed": {kind: quantiles(observed[kind]) for kind in KINDS},
        "enforced": {kind: quantiles(enforced[kind]) for kind in KINDS},
        "batch_end": {"observed": observed_end, "enforced": enforced_end},
    }  # fmt: skip


def _enforces(app: Celery, workers: int) -> bool:
    answers = ask(app, "fair_status", timeout_seconds=5, limit=workers)
    return len(answers) == workers and all(a["mode"] == "enforce" for a in answers.values())


@contextlib.contextmanager
def _workers(broker: Any, number: int, log: Path) -> Iterator[Journal]:
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        journal = Journal(Path(place) / "journal")
        env = {"CELERY_FAIR__MODE": "observe", "JOURNAL": str(journal.path)}
        for index in range(number):
            worker = WorkerProcess(
                "tests.apps.mixed", broker, log.with_suffix(f".{index}.log"), env=env,
                pool="prefork", concurrency=8 // number, hostname=f"w{index}@test",
            )  # fmt: skip
            stack.enter_context(worker)
        yield journal


def table(results: Sequence[dict[str, Any]]) -> str:
    """Observed, replayed, predicted, and measured after the switch."""
    lines = [
        "| load, broker, workers | kind | observed p95, s | plain Celery replayed "
        "| predicted p95, s | measured after the switch | off by |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for kind in KINDS:
            part, real = result["told"]["of"][kind], result["enforced"][kind]["p95"]
            before = f"| {_case(result)} | {kind} "
            if part["would_be"] is None:
                lines.append(f"{before}| – | – | {part['why']} | {real:.3f} | – |")
                continue
            predicted = part["would_be"]["p95"]
            off = _off(real, predicted)
            lines.append(
                f"{before}| {part['measured']['p95']:.3f} | {part['replayed']['p95']:.3f} "
                f"| {predicted:.3f} | {real:.3f} | {off} |"
            )
    for result in results:
        end = result["batch_end"]
        later = result["told"]["of"][BATCH]["later_last"]
        said = "no figure" if later is None else f"{later:+.1f} s"
        lines.append(
            f"\n{_case(result)}: batch was to end {said}, and ended "
            f"{end['enforced'] - end['observed']:+.1f} s after {end['observed']:.0f} s."
        )
    return "\n".join(lines) + "\n"


def _case(result: dict[str, Any]) -> str:
    return f"{result['load']}, {result['broker']}, {result['workers']}"


def _off(real: float, predicted: float) -> str:
    said = f"{error_of(real, predicted):.0%}"
    if real <= 0.05:
        said = f"{abs(predicted - real) * 1000:.0f} ms"
    return said if agrees(real, predicted) else f"{said} **off**"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.counterfactual")
    parser.add_argument("--brokers", default="redis,rabbitmq")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--load", default="steady,bursts")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build = Path("build/counterfactual")
    build.mkdir(parents=True, exist_ok=True)
    results = []
    cases = itertools.product(
        options.load.split(","), options.brokers.split(","), map(int, options.workers.split(","))
    )
    for name, broker, workers in cases:
        log = build / f"{name}-{broker}-{workers}"
        tasks = load(options.seconds, options.seed, name)
        results.append({"load": name, **measure(broker, workers, tasks, log)})
        log.with_suffix(".json").write_text(json.dumps(results[-1], indent=1))
        print(table(results[-1:]), f"load average {os.getloadavg()[0]:.1f}", flush=True)
    print(table(results))
    return int("**off**" in table(results))


if __name__ == "__main__":
    raise SystemExit(main())
