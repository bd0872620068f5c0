"""``python -m tests.soak``: a long run of mixed load on workers that are recycled, and its verdict.

Two workers with celery-fair and, beside them, two of stock Celery get the same calls at the same
moments. One of each pair lasts: its memory is judged. The other is stopped and started again and
again. Connections are cut, pools grown and shrunk, and pool children replaced.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks import machine
from tests.nodes.worker import ROOT
from tests.soak import judging
from tests.soak.plan import Act, Plan, make_plan
from tests.soak.side import Servers, Side, is_at_rest

SAMPLE_SECONDS = 5.0
FIRST_SECONDS = 90.0
"""The stretch before the first rest: each thing has happened once by then."""
REST_SECONDS = 180.0
STOCK_REST_SECONDS = 45.0
"""Not longer: after a lost connection stock Celery keeps some of its requests for good."""
LOOK_SECONDS = 0.2
RECORD = "record.json"


def main() -> int:
    options = _parser().parse_args()
    folder = (options.output or ROOT / "build/soak" / f"{options.broker}-{options.pool}").resolve()
    with _said_elsewhere() if options.json else nullcontext():
        record = _known(folder) if options.again else _run(options, folder)
        result = judging.judge(record, folder)
        (folder / "result.json").write_text(json.dumps(result, indent=1))
        _draw(record, folder)
        print(judging.text(result))
    if options.json:
        print(json.dumps(result))
    return 0 if result["passed"] else 1


@contextmanager
def _said_elsewhere() -> Iterator[None]:
    """Keep stdout for the JSON."""
    stdout, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout = stdout


def _known(folder: Path) -> dict[str, Any]:
    """What an earlier run has recorded."""
    return json.loads((folder / RECORD).read_text())


def _run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Everything that is seen, as one JSON document."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        servers = stack.enter_context(Servers(options.broker, folder / "servers"))
        sides = []
        for number, name in enumerate(("fair", "stock")):
            side = Side(name, servers.broker(number), servers, options.pool, folder)
            stack.callback(side.close)
            side.start()
            sides.append(side)
        soak = Soak(sides)
        record: dict[str, Any] = {
            "options": {
                name: getattr(options, name) for name in ("minutes", "broker", "pool", "seed")
            },
            "began": machine.moment(),
            "machine": machine.versions(),
            "rests": [],
        }
        for name, seconds in (("a", FIRST_SECONDS), ("b", options.minutes * 60.0)):
            plan = make_plan(options.seed, name, seconds, options.pool)
            print(f"{seconds / 60:g} min, {plan.tasks} tasks, {len(plan.acts)} acts", flush=True)
            soak.live_through(plan)
            record["rests"].append(soak.rest())
        record |= soak.told()
        record["ends"] = {side.name: side.stop() for side in sides}
    (folder / RECORD).write_text(json.dumps(record))
    return record


class Soak:
    """Both sides under one plan after the other."""

    def __init__(self, sides: list[Side]) -> None:
        self.sides = sides
        self.samples: list[dict[str, Any]] = []
        self.acts: list[dict[str, Any]] = []
        self.published: list[str] = []
        self.stretches: list[tuple[float, float]] = []
        self.late_seconds = 0.0
        self._stopped = threading.Event()
        self._began = time.monotonic()
        self._sample_at = 0.0

    @property
    def now(self) -> float:
        return time.monotonic() - self._began

    def live_through(self, plan: Plan) -> None:
        """Publish and act as planned; workers are started in this thread, and die with it."""
        began = self.now
        failures: list[BaseException] = []
        publisher = threading.Thread(target=self._publish, args=(plan, began, failures))
        publisher.start()
        acts = list(plan.acts)
        try:
            while self.now < began + plan.seconds or publisher.is_alive():
                while acts and self.now >= began + acts[0].at:
                    self._act(acts.pop(0))
                self._look()
                time.sleep(LOOK_SECONDS)
        except BaseException:
            self._stopped.set()
            raise
        finally:
            publisher.join()
        if failures:
            raise failures[0]
        self.stretches.append((began, self.now))

    def rest(self) -> dict[str, Any]:
        """Wait until nothing waits or runs; the last sample, whether or not it came to that."""
        began = self.now
        self._sample_at = self.now
        while True:
            if self._look():
                sample = self.samples[-1]
                rested = [is_at_rest(sample[side.name], len(side.workers)) for side in self.sides]
                ours, seconds = rested[0], self.now - began
                if all(rested) or (ours and seconds > STOCK_REST_SECONDS) or seconds > REST_SECONDS:
                    return sample
                for side in self.sides:
                    side.restore_slots()
            time.sleep(LOOK_SECONDS)

    def _publish(self, plan: Plan, began: float, failures: list[BaseException]) -> None:
        try:
            for call in plan.calls:
                late = self.now - began - call.at
                if self._stopped.wait(max(-late, 0)):
                    return
                self.late_seconds = max(self.late_seconds, late)
                for side in self.sides:
                    side.publish(call)
                self.published += call.ids
        except BaseException as error:
            failures.append(error)

    def _act(self, act: Act) -> None:
        for side in self.sides:
            side.act(act)
        self.acts.append({**asdict(act), "at": self.now})

    def _look(self) -> bool:
        """See to restarts, and take a sample when it is time to; whether it was."""
        for side in self.sides:
            side.follow_restart()
        if self.now < self._sample_at:
            return False
        at = self.now
        self._sample_at = at + SAMPLE_SECONDS
        self.samples.append({"at": at, **{side.name: side.sample() for side in self.sides}})
        return True

    def told(self) -> dict[str, Any]:
        """What has been seen, as JSON values."""
        return {
            "stretches": self.stretches,
            "samples": self.samples,
            "acts": self.acts,
            "published": self.published,
            "late_seconds": self.late_seconds,
            "sides": {
                side.name: {
                    "recycled": side.recycled,
                    "stop_seconds": side.stop_seconds,
                    "cuts": side.cuts,
                    "refused": side.refused,
                    "done": len(side.journal.entries("finish")),
                }
                for side in self.sides
            },
        }


def _draw(record: dict[str, Any], folder: Path) -> None:
    try:
        from tests.soak import picture
    except ImportError as error:
        print(f"no picture: {error}; it needs the extra `soak`", file=sys.stderr)
        return
    picture.draw(record, folder / "soak.png")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    add = parser.add_argument
    add("--minutes", type=float, default=20.0)
    add("--broker", choices=("redis", "rabbitmq"), default="redis")
    add("--pool", choices=("prefork", "threads", "gevent", "eventlet"), default="prefork")
    add("--seed", type=int, default=1)
    add("--output", type=Path, help="a folder, emptied first; default: build/soak/BROKER-POOL")
    add("--again", action="store_true", help="judge and draw anew what is recorded there")
    add("--json", action="store_true", help="the result on stdout, all else on stderr")
    return parser


if __name__ == "__main__":
    sys.exit(main())
