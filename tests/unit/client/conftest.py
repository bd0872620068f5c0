"""Apps on the in-memory broker, and what they published, read back from its queues."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from celery import Celery, _state, signals
from celery.contrib.testing.worker import start_worker
from kombu import Connection
from kombu.transport import memory

from celery_fair import Fair, FairHeader


@dataclass(frozen=True)
class Sent:
    """One message, and the queue it was found in."""

    task: str
    queue: str
    header: FairHeader | None
    properties: dict[str, Any]
    headers: dict[str, Any]
    #: Callbacks, errbacks, chain and chord that travel with it.
    embedded: dict[str, Any]

    @property
    def kind(self) -> str | None:
        return None if self.header is None else self.header.kind


@pytest.fixture(autouse=True)
def clean_process() -> Iterator[None]:
    """Give each test an empty broker, and the process its apps and shared tasks back."""
    shared, apps = set(_state._on_app_finalizers), set(_state._get_active_apps())
    current, default = _state._tls.current_app, _state.default_app
    level = logging.root.level  # a worker in this process sets it, and later tests look at warnings
    for app in apps:  # pytest-celery has one, which would collect the shared tasks of every test
        _state._deregister_app(app)
    _empty_broker()
    yield
    _state._on_app_finalizers.intersection_update(shared)
    _state._tls.current_app, _state.default_app = current, default
    logging.root.setLevel(level)
    for app in set(_state._get_active_apps()):
        app.close()
    for app in apps:
        _state._register_app(app)
    _empty_broker()


def _empty_broker() -> None:
    memory.Channel.queues.clear()
    memory.Transport.global_state.clear()


@pytest.fixture
def make_app() -> Iterator[Callable[..., Celery]]:
    made = []

    def make(name: str = "shop", **conf: Any) -> Celery:
        app = Celery(name, broker="memory://", backend="cache+memory://")
        app.conf.update(
            broker_transport_options={"polling_interval": 0.01},
            worker_hijack_root_logger=False,
            **conf,
        )
        made.append(app)
        return app

    yield make
    for app in made:
        fair = Fair.of(app)
        if fair is not None:
            fair.uninstall()
        app.close()


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app()


@pytest.fixture
def fair(app: Celery) -> Fair:
    return Fair(app)


def take(app: Celery) -> list[Sent]:
    """Take every message out of every queue, in the order of the queues' names."""
    found = []
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        for queue in sorted(channel.queues):
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                found.append(
                    Sent(
                        message.headers["task"],
                        queue,
                        FairHeader.read(message.headers),
                        message.properties,
                        message.headers,
                        message.payload[2],
                    )
                )
    return found


@pytest.fixture
def sent(app: Celery) -> Callable[[], list[Sent]]:
    return lambda: take(app)


@dataclass
class Log:
    """What was published while a worker ran: (short name of the task, queue, kind)."""

    rows: list[tuple[str, str, str]]
    headers: list[dict[str, Any]]

    def of(self, task: str) -> list[tuple[str, str]]:
        return [(queue, kind) for name, queue, kind in self.rows if name == task]


@contextmanager
def _recorded() -> Iterator[Log]:
    log = Log([], [])

    def note(sender: str, routing_key: str, headers: dict[str, Any], **_: Any) -> None:
        log.rows.append((sender.rpartition(".")[2], routing_key, headers["fair"].split()[0]))
        log.headers.append({"task": sender.rpartition(".")[2], **headers})

    signals.after_task_publish.connect(note, weak=False)
    try:
        yield log
    finally:
        signals.after_task_publish.disconnect(note)


@pytest.fixture
def recorded() -> Callable[[], AbstractContextManager[Log]]:
    return _recorded


@pytest.fixture
def working(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[Log]]:
    """Run a worker of Celery's own in this process: this tier is about what is published."""
    steps = types.SimpleNamespace(CONSUMER_STEPS=())
    monkeypatch.setitem(sys.modules, "celery_fair.worker.steps", steps)
    drain = Connection.drain_events

    def drain_shortly(connection: Connection, timeout: float | None = None, **options: Any) -> Any:
        # The worker looks whether it is to stop only when this returns: 2 s, twice a test.
        return drain(connection, timeout=min(timeout or 0.05, 0.05), **options)

    monkeypatch.setattr(Connection, "drain_events", drain_shortly)

    @contextmanager
    def run(app: Celery, **options: Any) -> Iterator[Log]:
        with _recorded() as log, start_worker(app, perform_ping_check=False, **options):
            yield log

    return run
