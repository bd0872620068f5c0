"""huey on Redis with priorities: a sorted set from which each thread takes the first."""

from __future__ import annotations

from huey import PriorityRedisHuey
from mixed_load.contestant import Call

from tests.benchmarks.others.bodies import broker_url, journal, perform
from tests.benchmarks.others.processes import Worker

huey = PriorityRedisHuey("others", url=broker_url(), results=False)


@huey.on_startup()
def report_ready() -> None:
    journal.ready()


@huey.task(priority=10)
def interactive(*args: object) -> None:
    perform["interactive"](*args)


@huey.task(priority=0)
def batch(*args: object) -> None:
    perform["batch"](*args)


def workers(slots: int) -> list[Worker]:
    arguments = ["huey.bin.huey_consumer", f"{__name__}.huey", "-w", str(slots), "-k", "thread"]
    # Each thread reports.
    return [Worker([*arguments, "--no-periodic", "--quiet"], slots, reports=slots)]


def submit(kind: str, call: Call) -> None:
    (interactive if kind == "interactive" else batch)(*call.args)
