"""arq: a worker serves one queue, in order, so each kind has a worker of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from functools import cache
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from mixed_load.bodies import LONGEST_NAP, journal_path
from mixed_load.contestant import Call
from mixed_load.journal import drain_flag

from tests.benchmarks.others.bodies import broker_url, journal
from tests.benchmarks.others.processes import Worker

KIND_VARIABLE = "OTHERS_ARQ_KIND"
SLOTS_VARIABLE = "OTHERS_ARQ_SLOTS"
BATCH_SHARE = 0.75
"""As the ruler's setup ``dedicated``."""

_flag = drain_flag(journal_path())


async def _perform(kind: str, task_id: str, enqueued_at: float, service: float) -> None:
    started_at = time.time()
    journal.started(kind, task_id, enqueued_at, started_at)
    while not _flag.exists() and (left := started_at + service - time.time()) > 0:
        await asyncio.sleep(min(left, LONGEST_NAP))
    journal.finished(task_id, time.time())


async def interactive(context: dict[str, Any], *args: Any) -> None:
    await _perform("interactive", *args)


async def batch(context: dict[str, Any], *args: Any) -> None:
    await _perform("batch", *args)


async def report_ready(context: dict[str, Any]) -> None:
    journal.ready()


class WorkerSettings:
    functions = (interactive, batch)
    queue_name = os.environ.get(KIND_VARIABLE, "")
    max_jobs = int(os.environ.get(SLOTS_VARIABLE, "1"))
    redis_settings = RedisSettings.from_dsn(broker_url())
    on_startup = report_ready
    keep_result = 0
    poll_delay = 0.05


def workers(slots: int) -> list[Worker]:
    of_batch = min(round(slots * BATCH_SHARE), slots - 1)
    return [
        Worker(
            ["arq", f"{__name__}.WorkerSettings"],
            some,
            environment={KIND_VARIABLE: kind, SLOTS_VARIABLE: str(some)},
        )
        for kind, some in {"interactive": slots - of_batch, "batch": of_batch}.items()
    ]


@cache
def _client() -> tuple[asyncio.AbstractEventLoop, ArqRedis]:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    settings = RedisSettings.from_dsn(broker_url())
    return loop, asyncio.run_coroutine_threadsafe(create_pool(settings), loop).result()


def submit(kind: str, call: Call) -> None:
    loop, redis = _client()
    job = redis.enqueue_job(kind, *call.args, _queue_name=kind)
    asyncio.run_coroutine_threadsafe(job, loop).result()
