"""What a tenant costs a message, in µs: ``python -m tests.benchmarks.tenants --costs``.

No broker and no pool: messages with a tenant and without go through the reading of their headers,
the dispatcher, the order of shards, and a publish. Each figure is the best of many short runs, the
ways by turns, so that a busy machine disturbs few of them. The dispatcher's are the harder ones:
what a loop repeats alone finds all it needs in the processor's nearest cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, cycle
from types import SimpleNamespace
from typing import Any

from celery import Celery

from celery_fair import Fair, FairHeader
from celery_fair.policy import Policy
from celery_fair.policy.heads import Heads
from celery_fair.policy.kinds import INTERACTIVE, KINDS
from celery_fair.policy.settings import PolicySettings
from celery_fair.worker.arrivals import Arrivals
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.lanes import Lane
from celery_fair.worker.pools import Pool
from celery_fair.worker.windows import Window
from tests.unit.worker.received import received

RUNS = 400
EACH = 100
HELD = 8
SLOTS = 4

Way = Callable[[], None]


def best(ways: Mapping[str, Way], runs: int = RUNS) -> dict[str, float]:
    """µs a call of each, without what calling costs."""
    ways = {"nothing": lambda: None, **ways}
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(runs):
        for name, way in ways.items():
            began = time.perf_counter()
            for _ in range(EACH):
                way()
            found[name] = min(found[name], time.perf_counter() - began)
    nothing = found.pop("nothing")
    return {name: (seconds - nothing) / EACH * 1e6 for name, seconds in found.items()}


def headers(tenants: int, *, each_asks: bool = False) -> Iterator[dict[str, str]]:
    """Headers as they are published, of so many tenants in turn; 0: of none."""
    at = time.time() - 5
    for number in count():
        line = FairHeader(
            INTERACTIVE,
            at + number / 1e6,
            at + number / 1e6,
            tenant=f"tenant-{number % tenants}" if tenants else None,
            request_id=f"0f8fad5b-d9cb-469f-a165-{number:012}" if each_asks else None,
        ).as_line()
        yield {"fair": line}


def some(made: Iterator[Any], most: int = 5_000) -> Callable[[], Any]:
    """Made beforehand, and given out in turn."""
    return cycle([next(made) for _ in range(most)]).__next__


class Worker:
    """A dispatcher whose slots are taken, and some of whose messages wait."""

    def __init__(self, headers: Callable[[], dict[str, str]]) -> None:
        now = time.monotonic()
        self._running: list[Any] = []
        self._headers = headers
        self._dispatcher = Dispatcher(
            Policy(PolicySettings(reserve=0), slots=SLOTS, now=now),
            Pool(SimpleNamespace(RUN=1, _state=1, num_processes=SLOTS)),
            self._running.append,
            lambda seconds, callback: None,
            lambda queue: INTERACTIVE,
        )
        lanes = {kind: Lane(kind, now, 100) for kind in KINDS}
        self._lane = lanes[INTERACTIVE]
        self._dispatcher.connect(lanes, {kind: Window(lane, None) for kind, lane in lanes.items()})
        for _ in range(HELD + SLOTS):
            self._receive()
        self._step = count()

    def _receive(self) -> None:
        self._dispatcher.on_task_request(received(self._lane, self._headers()))

    def one_ends_and_one_comes(self) -> None:
        self._running.pop(0).fair_slot.release()
        self._receive()
        if next(self._step) % EACH == 0:
            self._dispatcher.settle()  # as each tick does


def reading() -> dict[str, Way]:
    arrivals, now = Arrivals(), time.time() + 1

    def way(headers: Callable[[], dict[str, str]]) -> Way:
        return lambda: arrivals.stamps(headers(), now) and None

    return {
        "read: no tenant": way(some(headers(0))),
        "read: one of 20": way(some(headers(20))),
        "read: one of 4,000": way(some(headers(4_000))),
        "read: one of 20, and a request id": way(some(headers(20, each_asks=True))),
    }


def dispatching() -> dict[str, Way]:
    return {
        f"dispatch: {name}": Worker(some(headers(tenants))).one_ends_and_one_comes
        for name, tenants in (
            ("no tenant", 0),
            ("one", 1),
            ("one of 4", 4),
            ("one of 2,000", 2_000),
        )
    }


def ordering() -> dict[str, Way]:
    """The worker's part of a message from one of 16 shards, on Redis."""
    queues = [f"celery.shard-{number:02}" for number in range(16)]
    heads, now = Heads(), time.monotonic()
    shard, tenant = cycle(queues).__next__, cycle([f"t{n % 20}" for n in range(70)]).__next__

    def came() -> None:
        heads.came(shard(), tenant(), now)

    return {
        "shards: a message came": came,
        "shards: who is next": lambda: heads.in_order(queues) and None,
    }


def publishing() -> dict[str, Way]:
    """A publish up to where Celery makes the message."""
    app = Celery("costs", broker="memory://", set_as_current=False)
    fair = Fair(app)

    @app.task(name="answer", shared=False)
    def answer() -> None: ...

    task, number = app.tasks["answer"], count()

    def way(tenant: Callable[[], str | None]) -> Way:
        return lambda: fair.prepare("answer", (), {}, _options(task, tenant())) and None

    return {
        "publish: no tenant": way(lambda: None),
        "publish: one of 20": way(lambda: f"tenant-{next(number) % 20}"),
    }


def _options(task: Any, tenant: str | None) -> dict[str, Any]:
    return {"task_type": task, **({} if tenant is None else {"tenant": tenant})}


def main() -> None:
    for part in (reading, dispatching, ordering, publishing):
        for name, microseconds in best(part()).items():
            print(f"{name:40} {microseconds:6.2f} µs", flush=True)
