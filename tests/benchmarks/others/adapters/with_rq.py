"""rq: a pool of worker processes that look into the queue ``high`` before ``low``."""

from __future__ import annotations

from functools import cache

import rq
from mixed_load.contestant import Call
from redis import Redis

from tests.benchmarks.others.bodies import broker_url, journal, perform
from tests.benchmarks.others.processes import Worker

QUEUES = {"interactive": "high", "batch": "low"}


class ReportingWorker(rq.Worker):
    """Named on the command line, so that what a job needs is imported before it forks for one."""

    def register_birth(self) -> None:
        super().register_birth()
        journal.ready()


def interactive(*args: object) -> None:
    perform["interactive"](*args)


def batch(*args: object) -> None:
    perform["batch"](*args)


@cache
def _queues() -> dict[str, rq.Queue]:
    connection = Redis.from_url(broker_url())
    return {kind: rq.Queue(name, connection=connection) for kind, name in QUEUES.items()}


def workers(slots: int) -> list[Worker]:
    options = ["--url", broker_url(), "--num-workers", str(slots), "--quiet"]
    mine = ["--worker-class", f"{__name__}.ReportingWorker"]
    return [
        Worker(["rq.cli", "worker-pool", *QUEUES.values(), *options, *mine], slots, reports=slots)
    ]


def submit(kind: str, call: Call) -> None:
    function = interactive if kind == "interactive" else batch
    _queues()[kind].enqueue(function, *call.args, result_ttl=0)
