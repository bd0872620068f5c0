"""One worker of two slots a broker, shared by a module's situations: each is put in and cleared."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from celery_fair.cli.asking import Asking
from celery_fair.cli.explanation import Explanation
from celery_fair.policy.waiting import Reason
from tests.apps import trapped
from tests.brokers.broker import Broker
from tests.brokers.fixtures import watch
from tests.brokers.waiting import wait_until
from tests.nodes.worker import WorkerProcess

APP = "tests.apps.trapped"
# Next to no lookahead: else a worker that has seen short tasks only holds all that waits.
SETTINGS = {"CELERY_FAIR__RESERVE": "1", "CELERY_FAIR__LOOKAHEAD_SECONDS": "0.0001"}
ANSWER_SECONDS = 2.0

_numbers = itertools.count()


class Stage:
    """An app to publish with, and tasks that run until they are let go."""

    def __init__(self, broker: Broker, app: Celery, folder: Path, worker: WorkerProcess) -> None:
        self.broker = broker
        self.app = app
        self.worker = worker
        self._folder = folder
        self._next()

    def _next(self) -> None:
        self._path = self._folder / f"go-{next(_numbers)}"
        self._sent: list[str] = []

    def send(self, name: str, *args: object, **options: object) -> str:
        """Publish a task; its id."""
        task = self.app.tasks[name]
        if name.endswith("until"):
            args = ("blocked", str(self._path))
        id = task.apply_async(args or ("a",), **options).id
        self._sent.append(id)
        self._sent_at = time.monotonic()
        return id

    def let_go(self) -> None:
        """Let the tasks end that run until then."""
        self._path.touch()

    def let_go_after(self, seconds: float) -> None:
        """The same, once the last that was published has waited for so long."""
        wait_until(lambda: time.monotonic() - self._sent_at > seconds, "a wait")
        self.let_go()

    def run(self, *names: str) -> list[str]:
        """Publish tasks that run until they are let go, and wait until they do."""
        ids = [self.send(f"{name}.until") for name in names]
        for id in ids:
            self.wait(id, place="running")
        return ids

    @contextlib.contextmanager
    def ordered(self, command: str, undo: str, *names: str, **arguments: object) -> Iterator[None]:
        """Order something of the worker, and take it back; ``names`` are the arguments of both."""
        self._order(command, arguments)
        try:
            yield
        finally:
            self._order(undo, {name: arguments[name] for name in names} or {"undo": "yes"})

    def _order(self, command: str, arguments: dict[str, object]) -> None:
        (reply,) = self.app.control.broadcast(
            command, arguments, destination=[self.worker.hostname], reply=True, limit=1, timeout=5
        )
        assert "ok" in reply[self.worker.hostname], reply

    def explain(self, id: str) -> Explanation:
        return Asking(self.app, ANSWER_SECONDS, limit=1).task(id)

    def wait(
        self, id: str, reason: Reason | None = None, *, place: str | None = None
    ) -> Explanation:
        """The first explanation with that reason before all others, and of that place."""
        seen: list[Explanation] = []

        def holds() -> bool:
            seen[:] = [self.explain(id)]
            found = seen[0]
            reasons = [wait.reason for wait in found.waits]
            return place in (None, found.place.value) and (reason is None or reason in reasons[:1])

        def instead() -> str:
            told = Asking(self.app, ANSWER_SECONDS, limit=1).workers().reports
            return f"{reason or place} of {id}: {seen} with {told}"

        wait_until(holds, instead)
        return seen[0]

    def clear(self) -> None:
        """Let go of what runs, take back what waits, and wait until nothing does."""
        self.app.control.revoke(self._sent)
        self.let_go()
        asking = Asking(self.app, ANSWER_SECONDS, limit=1)

        def rests() -> bool:
            kinds = asking.workers().reports[self.worker.hostname]["kinds"].values()
            # What is limited waits for its rate, revoked or not.
            return all(k["running"] == 0 and k["backlog"] == k["rate_limited"] for k in kinds)

        wait_until(rests, "a worker at rest", timeout=15)
        self._next()


def make_stage(broker: Broker, folder: Path, hostname: str) -> Iterator[Stage]:
    """A stage on a broker, with its worker; kept until the module's end."""
    worker = WorkerProcess(APP, broker, folder / "worker.log", hostname=hostname, env=SETTINGS)
    app = trapped.make_app(broker)
    try:
        yield Stage(broker, app, folder, worker.start(wait_ready=True))
    finally:
        worker.close()
        app.close()


@pytest.fixture(scope="module")
def redis_stage(shared_redis, _redis_databases, tmp_path_factory) -> Iterator[Stage]:
    database = next(_redis_databases)
    with shared_redis.client(database) as client:
        client.flushdb()
    url = shared_redis.url_of(database)
    yield from make_stage(Broker("redis", url, url), tmp_path_factory.mktemp("redis"), "w1@redis")


@pytest.fixture(scope="module")
def rabbit_stage(shared_rabbitmq, tmp_path_factory) -> Iterator[Stage]:
    url = shared_rabbitmq.url_of(shared_rabbitmq.new_vhost())
    broker = Broker("rabbitmq", url, "rpc://")
    yield from make_stage(broker, tmp_path_factory.mktemp("rabbit"), "w1@rabbit")


@pytest.fixture
def stage(request, redis_stage) -> Iterator[Stage]:
    """The shared Redis worker, with nothing left on it afterwards."""
    watch(request, redis_stage.worker)
    yield redis_stage
    redis_stage.clear()


@pytest.fixture
def on_rabbit(request, rabbit_stage) -> Iterator[Stage]:
    watch(request, rabbit_stage.worker)
    yield rabbit_stage
    rabbit_stage.clear()
