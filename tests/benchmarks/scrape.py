"""How long a scrape of a big cluster takes: ``python -m tests.benchmarks.scrape``.

Events as workers send them, each through JSON, are heard by a `Cluster`; an endpoint on loopback is
then scraped over HTTP as Prometheus does it, gzip and all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from time import monotonic

from celery_fair.cli.exporter import Heard
from celery_fair.observe.cluster import Cluster
from celery_fair.observe.events import TASKS, TYPE
from celery_fair.observe.prometheus import FairCollector, registry_of
from tests.unit.observe.workers import facts, histogram, kind, task


class Quiet:
    """A listener that is connected."""

    error = None
    is_connected = True


def busy(number: int, tasks: int) -> list[dict]:
    """The events of a worker that tell all of its tasks, a few at a time."""
    finished = {"succeeded": 9000 + number, "failed": 12, "retried": 3}
    found = facts(
        interactive=kind(
            "celery", "celery.mail", running=2, ready={"celery": 3}, finished=finished,
            waits=histogram((0.005, 800), (0.1, 90), (1.0, 9)), runs=histogram((0.25, 899)),
        ),
        batch=kind(
            "celery.batch", "reports", running=4, held=1, ready={"reports": 5210},
            finished=finished, waits=histogram((30.0, 400), (600.0, 80)), runs=histogram((5, 480)),
        ),
    )  # fmt: skip
    counted = [
        task(f"shop.tasks.number_{one}", of=("interactive", "batch")[one % 2], wait=81.25,
             run=1200.5, **finished)
        for one in range(tasks)
    ]  # fmt: skip
    return [
        {"type": TYPE, "hostname": f"celery@worker-{number}", "fair_facts": found,
         "fair_tasks": counted[first : first + TASKS], "fair_every": 600.0}
        for first in range(0, max(tasks, 1), TASKS)
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=20, help="names of tasks of each worker")
    parser.add_argument("--times", type=int, default=9)
    options = parser.parse_args()

    from prometheus_client import start_http_server

    cluster = Cluster()
    for number in range(options.workers):
        for event in busy(number, options.tasks):
            cluster.hear(json.loads(json.dumps(event)), monotonic())
    heard = Heard(Quiet(), cluster)
    registry = registry_of(FairCollector(heard.sources, heard.reach))
    server, _ = start_http_server(0, addr="127.0.0.1", registry=registry)
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}/metrics")
    plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    text = plain.open(request).read().decode()
    request.add_header("Accept-Encoding", "gzip")
    taken, worked = [], []
    for _ in range(options.times):
        began, began_work = time.perf_counter(), time.process_time()
        body = plain.open(request).read()
        taken.append(time.perf_counter() - began)
        worked.append(time.process_time() - began_work)
    server.shutdown()
    server.server_close()
    series = sum(not line.startswith("#") for line in text.splitlines())
    alive = text.count("\ncelery_fair_slots{")
    print(
        f"{alive} workers, {options.tasks} names of tasks each: {series} series, "
        f"{len(body) / 1e6:.2f} MB gzipped; a scrape takes {statistics.median(taken):.2f} s "
        f"(median of {options.times}, slowest {max(taken):.2f}), {statistics.median(worked):.2f} s "
        f"of them the processor's"
    )


if __name__ == "__main__":
    main()
