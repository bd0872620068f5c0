"""Two workers on a broker of their own, with celery-fair or without, and what is done to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
import redis
from celery import group

from tests.apps.mixed import BATCH_QUEUE, INTERACTIVE_QUEUE
from tests.brokers.broker import Broker
from tests.brokers.rabbitmq import RabbitMQServer
from tests.brokers.redis import RedisServer
from tests.nodes import journal as journals
from tests.nodes.journal import Journal
from tests.nodes.worker import WorkerProcess
from tests.soak import app as soak_app
from tests.soak.plan import RECYCLED, Act, Call

SLOTS = 4
STOP_SECONDS = 60.0
CLOSE_CONNECTIONS = """
[rabbit_networking:close_connection(Pid, "soak")
 || [{pid, Pid}, {peer_port, Port}] <- rabbit_networking:connection_info_all([pid, peer_port]),
    lists:member(Port, [%s])].
"""
QUEUES = (INTERACTIVE_QUEUE, BATCH_QUEUE)
CALM_MALLOC = {"MALLOC_ARENA_MAX": "2"}
"""glibc gives each thread an arena of its own: on threads that would be the noise."""


class Servers:
    """Redis, which also keeps the results, and RabbitMQ if it is the broker."""

    def __init__(self, broker: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.redis = RedisServer(folder)
        self.rabbitmq = RabbitMQServer(folder) if broker == "rabbitmq" else None

    def __enter__(self) -> Servers:
        self.redis.start()
        if self.rabbitmq:
            self.rabbitmq.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in (self.redis, self.rabbitmq):
            if server:
                server.close()

    def broker(self, number: int) -> Broker:
        """A broker of one's own, on these servers."""
        results = self.redis.url_of(number)
        if self.rabbitmq is None:
            return Broker("redis", results, results)
        return Broker("rabbitmq", self.rabbitmq.url_of(self.rabbitmq.new_vhost()), results)

    def cut(self, worker: WorkerProcess) -> int:
        """Have the broker close every connection of the worker's main process; how many."""
        ports = {one.laddr.port for one in psutil.Process(worker.pid).net_connections()}
        return self._cut_rabbitmq(ports) if self.rabbitmq else self._cut_redis(ports)

    def _cut_redis(self, ports: set[int]) -> int:
        cut = 0
        with self.redis.client() as client:
            for one in client.client_list():
                if int(one["addr"].rsplit(":", 1)[1]) in ports:
                    with suppress(redis.ResponseError):  # gone with another of its own
                        cut += client.client_kill(one["addr"])
        return cut

    def _cut_rabbitmq(self, ports: set[int]) -> int:
        """In one call: each starts an Erlang machine, for seconds on a busy one."""
        assert self.rabbitmq
        self.rabbitmq.ctl("eval", CLOSE_CONNECTIONS % ",".join(map(str, ports)))
        return len(ports)


class Side:
    """The workers of one contestant: one that lasts, one that is restarted again and again."""

    def __init__(
        self, name: str, broker: Broker, servers: Servers, pool: str, folder: Path
    ) -> None:
        self.name = name
        self.stock = name == "stock"
        self.servers = servers
        self.app = soak_app.make_app(broker, stock=self.stock)
        self.app.conf.broker_pool_limit = 10  # this process publishes and asks at once
        self.journal = Journal(folder / f"{name}-journal.jsonl")
        self.workers = [
            self._worker(number, broker, pool, folder) for number in ("lasting", "recycled")
        ]
        self.stopping_since: float | None = None
        self.recycled = 0
        self.stop_seconds: list[float] = []
        self.cuts = 0
        self.refused: list[str] = []

    def _worker(self, number: str, broker: Broker, pool: str, folder: Path) -> WorkerProcess:
        return WorkerProcess(
            "tests.soak.app",
            broker,
            folder / f"{self.name}-{number}.log",
            pool=pool,
            concurrency=SLOTS,
            hostname=f"{number}@{self.name}",
            flags=(),
            env={
                journals.VARIABLE: str(self.journal.path),
                soak_app.STOCK: "1" if self.stock else "",
                **CALM_MALLOC,
            },
        )

    def start(self) -> None:
        for worker in self.workers:
            worker.start(timeout=60)

    def stop(self) -> dict[str, int | None]:
        """Ask the workers to stop; the exit code of each, ``None`` if it does not."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            with suppress(AssertionError):
                worker.wait(STOP_SECONDS)
        return {worker.hostname: worker.exit_code for worker in self.workers}

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.app.close()

    def publish(self, call: Call) -> None:
        signature = self.app.tasks[call.name].s(*call.args)
        options = {"countdown": call.countdown} if call.countdown else {}
        if call.size == 1:
            signature.apply_async(task_id=call.ids[0], **options)
        else:
            group(signature.clone().set(task_id=one) for one in call.ids).apply_async(**options)

    # what is done to them

    def act(self, act: Act) -> None:
        """Do it; a restart goes on in ``follow_restart``."""
        worker = self.workers[act.worker]
        if act.name == "cut":
            self.cuts += bool(self.servers.cut(worker)) if worker.running else 0
        elif act.name == "resize":
            answer = self.ask("soak_resize", worker, slots=act.slots)
            if "ok" not in answer.get(worker.hostname, {}):
                self.refused.append(f"{act.slots:+d}: {answer}")
        elif self.stopping_since is None:
            worker.terminate()
            self.stopping_since = monotonic()

    def follow_restart(self) -> None:
        """Start the recycled worker anew when it has ended."""
        if self.stopping_since is None:
            return
        worker, took = self.workers[RECYCLED], monotonic() - self.stopping_since
        if worker.running:
            assert took < STOP_SECONDS, f"{worker.hostname} does not stop:\n{worker.report()}"
            return
        self.stop_seconds.append(took)
        self.recycled += 1
        self.stopping_since = None
        worker.spawn()

    def restore_slots(self) -> None:
        """Undo what growing and shrinking has left: a pool may refuse to be shrunk while busy."""
        for worker in self.workers:
            probe = self.ask("soak_probe", worker).get(worker.hostname)
            if probe and (more := SLOTS - probe["kept"]["slots"]):
                self.ask("soak_resize", worker, slots=more)

    # what it is like

    def ask(
        self, command: str, *workers: WorkerProcess, timeout: float = 2.0, **arguments: object
    ) -> dict[str, Any]:
        """Answers by the node's name, of those that have answered in time."""
        asked = [worker.hostname for worker in workers or self.workers]
        answers = self.app.control.broadcast(
            command,
            arguments=arguments,
            reply=True,
            destination=asked,
            limit=len(asked),
            timeout=timeout,
        )
        return {name: answer for one in answers or [] for name, answer in one.items()}

    def sample(self) -> dict[str, Any]:
        """Its processes, their own word, and what is ready at the broker; now."""
        alive = [worker for worker in self.workers if worker.running]
        processes = {}
        for worker in alive:
            with suppress(psutil.NoSuchProcess):
                processes[worker.hostname] = _processes(worker)
        return {
            "processes": processes,
            "probes": self.ask("soak_probe", *alive),
            "ready": {queue: self.ready(queue) for queue in QUEUES},
            "unacknowledged": self.unacknowledged(),
        }

    def ready(self, queue: str) -> int | None:
        """How many messages of ``queue`` are ready at the broker."""
        with self.app.pool.acquire() as connection:
            channel = connection.channel()
            try:
                if self.servers.rabbitmq is None:
                    return channel._size(queue)
                return channel.queue_declare(queue, passive=True).message_count
            except connection.channel_errors:
                return None
            finally:
                channel.close()

    def unacknowledged(self) -> int:
        """How many messages Redis keeps as given out; RabbitMQ's are in its workers' counts."""
        if self.servers.rabbitmq:
            return 0
        with self.app.pool.acquire() as connection:
            channel = connection.default_channel
            return channel.client.hlen(channel.unacked_key)


def is_at_rest(sample: Mapping[str, Any], workers: int) -> bool:
    """Whether all workers have answered, and nothing waits or runs anywhere."""
    return not (
        len(sample["probes"]) < workers
        or any(any(probe["busy"].values()) for probe in sample["probes"].values())
        or any(sample["ready"].values())
        or sample["unacknowledged"]
    )


def _processes(worker: WorkerProcess) -> dict[str, Any]:
    main = psutil.Process(worker.pid)
    children = []
    for child in main.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            children.append(child.memory_info().rss)
    return {
        "rss": main.memory_info().rss,
        "children": len(children),
        "children_rss": sum(children),
        "fds": main.num_fds(),
        "threads": main.num_threads(),
    }
