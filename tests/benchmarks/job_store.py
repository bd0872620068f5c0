"""What keeping a job costs: a million items through a Redis of its own.

    python -m tests.benchmarks.job_store [ITEMS] [--results] [--failing PART]

Says how long each step takes for who asks, what Redis took for it at most (SLOWLOG), and how much
memory a job has while it runs and when it has ended.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from redis import Redis
from rich.console import Console
from rich.table import Table

from celery_fair.internals import Connected
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.redis_store import RedisStore
from celery_fair.jobs.store import Claim, Failed, Report
from celery_fair.state import State
from tests.brokers.redis import RedisServer

JOB = "million"
SLOW_MICROSECONDS = 1_000


class Measured:
    """Seconds by step, and the memory of the job at most."""

    def __init__(self, client: Redis) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.most = 0
        self._client = client

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[step].append(time.perf_counter() - began)

    def weigh(self) -> int:
        used = int(self._client.info("memory")["used_memory"])
        self.most = max(self.most, used)
        return used


def work(store: RedisStore, measured: Measured, total: int, chunk: int, failing: int) -> None:
    """Submit, claim and report until all is finished."""
    submitted, ticket, number = 0, "", 0
    while True:
        if submitted < total:
            items = [
                f'{{"document": {i}}}' for i in range(submitted, min(submitted + 5_000, total))
            ]
            with measured("append 5,000"):
                submitted = store.append(JOB, submitted, items).submitted
            if submitted == total:
                store.close(JOB, total)
        if not ticket:
            number += 1
            with measured("grant"):
                granted = store.grant(JOB, [f"t{number}"])
            if not granted:
                return
            ticket = granted[0]
        for _ in range(max(5_000 // chunk, 1)):
            with measured(f"claim {chunk}"):
                claim = store.claim(JOB, ticket, 30.0)
            if not isinstance(claim, Claim):
                ticket = ""
                break
            said = report_of(claim, failing, store.plan(JOB).results)
            number += 1
            with measured(f"report {chunk}"):
                told = store.report(claim, said, size=chunk, ends=True, next_ticket=f"t{number}")
            ticket = told.next_ticket or ""
            if not ticket:
                break
        measured.weigh()


def report_of(claim: Claim, failing: int, results: bool) -> Report:
    indices = claim.indices
    failed = [i for i in indices if failing and i % failing == 0]
    return Report(
        after=0,
        count=len(indices),
        failed=[Failed(i, "ValueError", "the document can't be read") for i in failed],
        results={i: '"done"' for i in indices if i not in failed} if results else {},
        seconds=1.0,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("items", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--chunk", type=int, default=100, help="items of a chunk")
    parser.add_argument("--results", action="store_true", help="keep a result of each item")
    parser.add_argument("--failing", type=int, default=0, help="every n-th item fails")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.start()
        with suppress(PermissionError):  # else what runs beside it is measured as well
            os.setpriority(os.PRIO_PROCESS, server.pid, -20)
        try:
            with server.client() as client:
                measure(client, asked)
        finally:
            server.close()


def measure(client: Redis, asked: argparse.Namespace) -> None:
    client.config_set("slowlog-log-slower-than", SLOW_MICROSECONDS)
    client.config_set("slowlog-max-len", 100_000)
    client.slowlog_reset()
    store = RedisStore(State(lambda: Connected(client, "", lambda: None), patience_seconds=5.0))
    measured = Measured(client)
    empty = measured.weigh()
    chunk = asked.chunk
    store.create(Plan(JOB, "t", total=asked.items, chunk_items=chunk, results=asked.results))
    began = time.perf_counter()
    work(store, measured, asked.items, chunk, asked.failing)
    seconds = time.perf_counter() - began
    with measured("progress"):
        progress = store.progress(JOB)
    with measured("failures, 100"):
        store.failures(JOB, max(progress.failed - 100, 0))
    with measured("results, 100"):
        store.results(JOB, asked.items // 2)
    ended = measured.weigh()
    with measured("retry_failed"):
        store.retry_failed(JOB)
    tell(client, measured, progress, seconds, empty, ended)


def tell(client, measured, progress, seconds, empty, ended) -> None:
    table = Table("step", "times", "mean ms", "p99 ms", "most ms")
    for step, all_of in measured.seconds.items():
        ordered = sorted(all_of)
        mean, p99 = sum(ordered) / len(ordered), ordered[int(len(ordered) * 0.99)]
        figures = (f"{1000 * one:.3f}" for one in (mean, p99, ordered[-1]))
        table.add_row(step, f"{len(ordered):,}", *figures)
    slow = client.slowlog_get(100_000)
    most = max((one["duration"] for one in slow), default=0)
    very = sum(one["duration"] > 10_000 for one in slow)
    console = Console(width=100)
    console.print(table)
    console.print(f"{progress.state}: {progress.done:,} done, {progress.failed:,} failed")
    console.print(f"{seconds:.1f} s, {1e6 * seconds / progress.submitted:.1f} µs an item")
    console.print(
        f"SLOWLOG: {len(slow):,} over 1 ms, {very} over 10 ms, the longest {most / 1000:.1f} ms"
    )
    at_most, at_end = (f"{(used - empty) / 1e6:.1f} MB" for used in (measured.most, ended))
    console.print(f"memory: {at_most} at most, {at_end} at the end")


if __name__ == "__main__":
    main()
