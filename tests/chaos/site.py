"""The servers and workers of one chaos run, and how to talk to them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kombu import Connection

from tests.apps import chaotic
from tests.brokers.broker import Broker
from tests.brokers.rabbitmq import RabbitMQServer
from tests.brokers.redis import RedisServer
from tests.chaos.account import Key, Trouble
from tests.chaos.plan import GREEN, Plan
from tests.nodes.journal import VARIABLE, Journal
from tests.nodes.worker import WorkerProcess

VISIBILITY_SECONDS = 20
LONGER_SECONDS = 45
"""Where a worker stands still for most of that: what it holds is not to be another's meanwhile."""
ANSWER_SECONDS = 2.0
AOF = {"aof-timestamp-enabled": "yes", "auto-aof-rewrite-percentage": "0"}
REDIS_OPTIONS = {
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    # A worker that dies as it restores keeps all others from it for so long; by default 300.
    "unacked_mutex_expire": 5,
}
READY_SECONDS = 90.0


class Site:
    """A broker, a result backend of its own, and the workers of a plan."""

    def __init__(self, plan: Plan, folder: Path, *, stock: bool, naive: str = "") -> None:
        self.plan = plan
        self.folder = folder
        self.journal = Journal(folder / "journal.jsonl")
        self.clock = folder / "clock"
        """By how many seconds the clock of what the workers share is off; all of them read it."""
        self.troubles: list[Trouble] = []
        self.stopping: set[WorkerProcess] = set()
        """Asked to stop; a second signal would have them stop at once."""
        self.server = self._server()
        self.results = RedisServer(_made(folder / "results"), name="results")
        self.broker = self._broker()
        conf = {"broker_heartbeat": 0} if plan.pool in GREEN else {}
        os.environ[VARIABLE] = str(self.journal.path)
        self.app = chaotic.make_app(self.broker, stock=stock, **conf)
        # Nobody waits for a result: neither subscribe to it, nor unsubscribe when all is over.
        self.app.backend.on_task_call = lambda *_, **__: {}
        self.app.backend.remove_pending_result = lambda result: result
        self.workers = [self._worker(number, stock, naive) for number in range(plan.workers)]

    def _server(self) -> RedisServer | RabbitMQServer:
        folder = _made(self.folder / self.plan.broker)
        if self.plan.broker == "redis":
            return RedisServer(folder, append_only=True, config=AOF)
        return RabbitMQServer(folder)

    def _broker(self) -> Broker:
        visible = {"visibility_timeout": self.visibility_seconds}
        options = {**REDIS_OPTIONS, **visible} if self.is_redis else {"confirm_publish": True}
        return Broker(self.plan.broker, self.server.url, self.results.url, options)

    @property
    def visibility_seconds(self) -> int:
        return LONGER_SECONDS if self.plan.stalls else VISIBILITY_SECONDS

    @property
    def is_redis(self) -> bool:
        return self.plan.broker == "redis"

    def _worker(self, number: int, stock: bool, naive: str) -> WorkerProcess:
        hostname = f"w{number + 1}@chaos"
        return WorkerProcess(
            "tests.apps.chaotic",
            self.broker,
            self.folder / f"worker-{number + 1}.log",
            pool=self.plan.pool,
            concurrency=self.plan.slots,
            queues=chaotic.QUEUES,
            hostname=hostname,
            env={
                VARIABLE: str(self.journal.path),
                chaotic.WORKER: hostname,
                chaotic.STOCK: "1" if stock else "",
                chaotic.CLOCK: str(self.clock),
                "NAIVE": naive,
                "CHAOS_HEARTBEAT": "0" if self.plan.pool in GREEN else "120",
            },
        )

    def start(self) -> None:
        self.clock.write_text("0")
        self.results.start()
        self.server.start()
        for worker in self.workers:
            worker.start(wait_ready=False)
        for worker in self.workers:
            worker.wait_for(worker.is_ready, "being ready", timeout=READY_SECONDS)

    def close(self) -> None:
        """End everything; nothing that was started is left."""
        for worker in self.workers:
            worker.close()
        self.app.close()
        self.server.close()
        self.results.close()

    @contextmanager
    def trouble(self, what: str, worker: WorkerProcess | None, pid: int | None = None) -> Iterator:
        """Keep in mind what is done to a worker, or to all of them, inside the block."""
        at = time.time()
        try:
            yield
        finally:
            hostname = worker.hostname if worker else ""
            self.troubles.append(Trouble(what, hostname, at, time.time(), pid))

    def ask(self, worker: WorkerProcess, command: str, **arguments: Any) -> dict[str, Any] | None:
        """The worker's answer to a command, or ``None`` if there is none now."""
        try:
            answers = self.app.control.broadcast(
                command,
                arguments=arguments,
                reply=True,
                destination=[worker.hostname],
                limit=1,
                timeout=ANSWER_SECONDS,
            )
        except Exception:  # the broker is away, or has just come back
            return None
        return answers[0][worker.hostname] if answers else None

    def left(self) -> Counter[Key]:
        """What is at the broker once its workers are gone; takes it out."""
        found: Counter[Key] = Counter()
        with Connection(self.broker.url, transport_options=self.broker.transport_options) as link:
            channel = link.channel()
            for queue in chaotic.QUEUES:
                try:
                    while message := channel.basic_get(queue, no_ack=True):
                        found[_key(message.headers)] += 1
                except link.channel_errors:  # there is no such queue
                    channel = link.channel()
            if self.is_redis:
                for value in channel.client.hvals(channel.unacked_key):
                    found[_key(json.loads(value)[0]["headers"])] += 1
        return found


def _key(headers: dict[str, Any]) -> Key:
    return Key(headers["id"], headers.get("retries") or 0)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
