"""What an idle worker costs, with celery-fair and without."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kombu import pools

from tests.apps import mixed
from tests.benchmarks.servers import OwnServer
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.nodes.worker import WorkerProcess

SLOTS = 8
SETTLE_SECONDS = 5.0
DURATION_SECONDS = 30.0
APPS = {"stock": "tests.apps.plain", "fair": "tests.apps.mixed"}


def measure_idle(
    name: str, server: OwnServer, pool: str, seconds: float, log: Path
) -> dict[str, Any]:
    """CPU, connections and sensor reads of one worker that has nothing to do."""
    wait_until(lambda: not server.connections(), "nobody else at the broker", timeout=20)
    worker = WorkerProcess(
        APPS[name], server.broker, log, pool=pool, concurrency=SLOTS, loglevel="INFO", flags=()
    )
    with worker:
        # Neither starting nor the first, quick reads of the sensor are what is asked for.
        time.sleep(SETTLE_SECONDS)
        # Before it is asked anything: an answer makes a worker open more of them.
        connections = server.connections()
        reads, begun_at = _reads(name, server.broker), time.monotonic()
        cpu = _cpu_seconds(worker)
        time.sleep(seconds)
        cpu_share = (_cpu_seconds(worker) - cpu) / seconds
        per_second = (_reads(name, server.broker) - reads) / (time.monotonic() - begun_at)
        worker.stop()
    return {
        "cpu_share": cpu_share,
        "connections": connections,
        "sensor_reads_per_second": per_second,
    }


def _cpu_seconds(worker: WorkerProcess) -> float:
    total = 0.0
    for process in worker.members():
        times = process.cpu_times()
        total += times.user + times.system
    return total


def _reads(name: str, broker: Broker) -> int:
    """What the sensor has read so far, by the worker's own word; none in a stock worker."""
    if name == "stock":
        return 0
    app = mixed.make_app(broker)
    try:
        answers = app.control.broadcast("fair_status", reply=True, timeout=10, limit=1)
    finally:
        app.close()
        pools.reset()  # the question was published over a connection of the pool
    (status,) = answers[0].values()
    return status["sensor"]["reads"]
