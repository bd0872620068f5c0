"""Fixtures: workers of a test's own, the journal of what they ran, and an app to publish with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery import Celery

from tests.apps import plain
from tests.brokers.broker import Broker
from tests.brokers.fixtures import watch
from tests.nodes import journal as journals
from tests.nodes.journal import Journal
from tests.nodes.worker import WorkerProcess


@pytest.fixture
def journal(tmp_path) -> Journal:
    """What the tasks of this test's workers have recorded."""
    return Journal(tmp_path / "journal.jsonl")


@pytest.fixture
def start_worker(request, tmp_path, journal) -> Iterator[Callable[..., WorkerProcess]]:
    """``start_worker("tests.apps.plain", pool="prefork", concurrency=2, …)``: a ready worker.

    ``broker`` is the test's ``broker`` fixture unless given (a ``Broker`` or a URL); the other
    arguments are ``WorkerProcess``'s. ``wait_ready=False`` returns at once. However the test
    ends, no process of the worker is left, and a failing test's report has its log.
    """
    workers: list[WorkerProcess] = []

    def start(
        app: str = "tests.apps.plain",
        *,
        broker: Broker | str | None = None,
        wait_ready: bool = True,
        timeout: float | None = None,
        env: dict[str, str] | None = None,
        **options,
    ) -> WorkerProcess:
        number = len(workers) + 1
        worker = WorkerProcess(
            app,
            _broker(request, broker),
            _log(tmp_path, number),
            env={journals.VARIABLE: str(journal.path), **(env or {})},
            **{"hostname": f"w{number}@test", **options},
        )
        workers.append(worker)
        watch(request, worker)
        return worker.start(wait_ready=wait_ready, timeout=timeout)

    yield start
    for worker in workers:
        worker.close()


@pytest.fixture
def plain_app(broker) -> Iterator[Celery]:
    """The app of ``tests.apps.plain`` in this process, to publish with on ``broker``."""
    app = plain.make_app(broker)
    yield app
    app.close()


def _broker(request: pytest.FixtureRequest, broker: Broker | str | None) -> Broker:
    if broker is None:
        return request.getfixturevalue("broker")
    if isinstance(broker, str):
        # No result backend of its own: Redis holds results where it is the broker.
        return Broker("url", broker, broker if broker.startswith("redis") else "rpc://")
    return broker


def _log(tmp_path: Path, number: int) -> Path:
    return tmp_path / f"worker-{number}.log"
