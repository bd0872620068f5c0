"""A site for one trap: an app to publish with, workers that may be naive, and what is left over."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis
from celery import Celery
from kombu import Connection

from tests.apps import trapped
from tests.apps.mixed import BATCH_QUEUE, INTERACTIVE_QUEUE
from tests.brokers.broker import Broker
from tests.brokers.waiting import NotInTimeError, wait_until
from tests.nodes.journal import Journal
from tests.nodes.worker import WorkerProcess

QUEUES = (INTERACTIVE_QUEUE, BATCH_QUEUE)
LONG_SECONDS = 25.0
REFUTED_SECONDS = 1.5


class Site:
    """What a trap is set with. Settings are those of ``app.conf.fair``, by their names."""

    def __init__(
        self,
        broker: Broker,
        app: Celery,
        journal: Journal,
        start_worker: Callable[..., WorkerProcess],
        folder: Path,
    ) -> None:
        self.broker = broker
        self.app = app
        self.journal = journal
        self.folder = folder
        self._start_worker = start_worker

    def use(self, url: str, backend: str | None = None) -> None:
        """Publish and consume elsewhere than on the test's ``broker``."""
        name = "redis" if url.startswith("redis") else "rabbitmq"
        self.broker = Broker(name, url, backend or url)
        self.app.conf.update(self.broker.conf())

    def start(
        self,
        naive: str = "",
        *,
        app: str = "tests.apps.trapped",
        hoard: int | str = "",
        watched: str = "",
        conf: dict[str, object] | None = None,
        settings: dict[str, object] | None = None,
        env: dict[str, str] | None = None,
        **options,
    ) -> WorkerProcess:
        """A ready worker of ``tests.apps.trapped``; ``naive`` names its doubles."""
        settings = settings or {}
        environ = {
            "NAIVE": naive,
            "HOARD": str(hoard),
            "WATCHED": watched,
            "CELERY_CONF": json.dumps(conf or {}),
            **{
                f"CELERY_FAIR__{name.upper()}": str(value)
                for name, value in (settings or {}).items()
            },
            **(env or {}),
        }
        return self._start_worker(app, broker=self.broker, env=environ, **options)

    def send(self, name: str, label: str, *args: object, **options: object):
        """Publish the task ``name`` with its label; the result."""
        return self.app.tasks[name].apply_async((label, *args), **options)

    @property
    def release_path(self) -> Path:
        return self.folder / "release"

    def block(self, name: str, *labels: str, **options: object) -> None:
        """Publish tasks that run until ``release``."""
        for label in labels:
            self.send(name, label, str(self.release_path), **options)

    def release(self) -> None:
        """Let every blocked task end."""
        self.release_path.touch()

    def ask(self, worker: WorkerProcess, command: str = "fair_status") -> dict:
        """The worker's own answer; going once through its loop, it also orders events.

        Asked again now and then: while a worker reconnects, a question is lost.
        """
        return wait_until(
            lambda: self._ask_once(worker, command),
            f"an answer to {command} from {worker.hostname}",
            timeout=LONG_SECONDS,
        )

    def _ask_once(self, worker: WorkerProcess, command: str) -> dict | None:
        answers = self.app.control.broadcast(
            command, reply=True, destination=[worker.hostname], limit=1, timeout=2
        )
        return answers[0][worker.hostname] if answers else None

    def wait_status(
        self, worker: WorkerProcess, fact: Callable[[dict], object], timeout: float = LONG_SECONDS
    ) -> dict:
        """The first status for which ``fact`` holds."""
        seen: dict = {}

        def holds() -> bool:
            seen.update(self.ask(worker))
            return bool(fact(seen))

        wait_until(holds, lambda: f"a status other than {seen}", timeout=timeout)
        return seen

    def held(self, worker: WorkerProcess, kind: str) -> int:
        return self.ask(worker)["kinds"][kind]["held"]

    def wait_held(self, worker: WorkerProcess, kind: str, count: int) -> None:
        self.wait_status(worker, lambda status: status["kinds"][kind]["held"] == count)

    def take_all(self, *queues: str) -> list[str]:
        """The ids of every message that is ready at the broker; takes them out."""
        ids = []
        with Connection(self.broker.url) as connection:
            channel = connection.channel()
            for queue in queues or QUEUES:
                while message := channel.basic_get(queue, no_ack=True):
                    ids.append(message.headers["id"])
        return ids

    def ready(self, queue: str) -> int:
        """How many messages of ``queue`` are ready at the broker."""
        with Connection(self.broker.url) as connection:
            channel = connection.channel()
            if self.broker.name == "redis":
                return channel._size(queue)
            return channel.queue_declare(queue, passive=True).message_count

    def unacknowledged(self) -> int:
        """How many messages Redis keeps as given out and not yet acknowledged."""
        with Connection(self.broker.url) as connection:
            channel = connection.channel()
            return channel.client.hlen(channel.unacked_key)

    def pops(self, worker: WorkerProcess) -> int:
        """How many of the worker's Redis connections wait in a BRPOP, or did last."""
        return len(self._popping(worker))

    def are_in_flight(self, worker: WorkerProcess, pops: int) -> bool:
        """Whether the worker has so many connections for BRPOPs, and all wait in one now."""
        found = self._popping(worker)
        return len(found) == pops and all("b" in one["flags"] for one in found)

    def _popping(self, worker: WorkerProcess) -> list[dict[str, str]]:
        with redis.Redis.from_url(self.broker.url, decode_responses=True) as client:
            return [one for one in _clients(worker, client) if one["cmd"] == "brpop"]

    def reconnect(self, worker: WorkerProcess) -> None:
        """Cut the worker's connections, and wait until it has new ones."""
        before = self.ask(worker, "fair_probe")["restarts"]
        self.cut(worker)
        wait_until(
            lambda: self.ask(worker, "fair_probe")["restarts"] > before,
            "a new connection",
            timeout=LONG_SECONDS,
        )

    def cut(self, worker: WorkerProcess) -> None:
        """Have Redis close every connection of the worker.

        It is stopped meanwhile, so that it finds all of them closed, and those in a BRPOP last.
        """
        worker.send_signal(signal.SIGSTOP)
        self.kill_clients(worker)
        worker.send_signal(signal.SIGCONT)

    def kill_clients(self, worker: WorkerProcess) -> None:
        """Have Redis close every connection of a worker that is stopped meanwhile."""
        with redis.Redis.from_url(self.broker.url, decode_responses=True) as client:
            for one in sorted(_clients(worker, client), key=lambda one: one["cmd"] == "brpop"):
                with contextlib.suppress(redis.ResponseError):  # gone with another of its own
                    client.client_kill(one["addr"])

    def cut_idle_pops(self, worker: WorkerProcess) -> None:
        """Have Redis close the connections of shut lanes, once their last BRPOP is answered."""
        with redis.Redis.from_url(self.broker.url, decode_responses=True) as client:

            def idle() -> list[dict[str, str]]:
                found = [one for one in _clients(worker, client) if one["cmd"] == "brpop"]
                return [one for one in found if "b" not in one["flags"]]

            for one in wait_until(idle, "a lane to be shut"):
                client.client_kill(one["addr"])

    def starts(self) -> Counter[str]:
        return Counter(self.journal.started())


def _clients(worker: WorkerProcess, client: redis.Redis) -> list[dict[str, str]]:
    connections = psutil.Process(worker.pid).net_connections()
    ports = {connection.laddr.port for connection in connections}
    return [one for one in client.client_list() if int(one["addr"].rsplit(":", 1)[1]) in ports]


@pytest.fixture
def site(broker, journal, start_worker, tmp_path) -> Iterator[Site]:
    """A site on the test's ``broker``."""
    app = trapped.make_app(broker)
    yield Site(broker, app, journal, start_worker, tmp_path)
    app.close()


@pytest.fixture
def refuted() -> Callable[[Callable[[], object]], None]:
    """``refuted(fact)``: the fault of a naive double, a fact that does not come true in a while.

    One-sided: a slow machine can only make the fault more lasting.
    """

    def check(fact: Callable[[], object], seconds: float = REFUTED_SECONDS) -> None:
        with pytest.raises(NotInTimeError):
            wait_until(fact, timeout=seconds)

    return check
