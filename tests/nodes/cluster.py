"""pytest-celery's brokers, backend and worker as local processes: ``celery_setup`` without Docker.

These fixtures replace those of pytest-celery 1.3 that run a container (``default_*``, in its
``vendors/*/fixtures.py``); all others are used as they come. Redis is a test's own; RabbitMQ is
the session's, with a virtual host a test.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.result import AsyncResult
from pytest_celery import (
    CeleryTestBackend,
    CeleryTestWorker,
    CeleryWorkerContainer,
    RabbitMQContainer,
    RedisContainer,
    RedisTestBackend,
)

from tests.brokers.process import ChildProcess
from tests.brokers.waiting import wait_until
from tests.nodes.handle import ProcessHandle
from tests.nodes.worker import QUIET_FLAGS, ROOT, CeleryProcess


class _LocalProcess:
    """Mixed into a pytest-celery container whose process is already started and ready."""

    def __init__(self, process: ChildProcess) -> None:
        super().__init__(ProcessHandle(process))
        self.process = process

    def _wait_ready(self, timeout: int = 30) -> bool:
        # pytest-celery looks for the prompt in all logs, once a second, so after a restart it
        # would find the last run's; starting our processes waits for this run.
        return True

    def teardown(self) -> None:
        self.process.close()


class _LocalBroker(_LocalProcess):
    """Reached by one URL from the test and from the worker, with a port and credentials."""

    @property
    def url(self) -> str:
        return self.host_url

    @property
    def port(self) -> int:
        return self.process.port


class LocalRedis(_LocalBroker, RedisContainer):
    @property
    def host_url(self) -> str:
        return self.process.url


class LocalRabbitMQ(_LocalBroker, RabbitMQContainer):
    def __init__(self, process: ChildProcess, vhost: str) -> None:
        super().__init__(process)
        self._vhost = vhost

    @property
    def vhost(self) -> str:
        return self._vhost

    @property
    def host_url(self) -> str:
        return self.process.url_of(self._vhost)

    def teardown(self) -> None:
        """The session's server stays for the next test."""


class LocalWorker(_LocalProcess, CeleryWorkerContainer):
    @classmethod
    def command(cls, *args: str, **options: object) -> list[str]:
        _, *rest = super().command(*args, **options)
        return [sys.executable, "-m", "celery", *rest, *QUIET_FLAGS]


class LocalBackend(RedisTestBackend):
    def teardown(self) -> None:
        """End it, which no result that is left may call later on.

        pytest-celery asks ``isinstance`` of whatever there is in the process; then a proxy looks
        for its object, for instance a shared task that a test of another file has brought along.
        """
        gc.collect()
        for found in gc.get_objects():
            if issubclass(type(found), AsyncResult):
                found.backend = None
        CeleryTestBackend.teardown(self)


class PromptWorker(CeleryTestWorker):
    """Sees a log line at once, where pytest-celery looks once a second."""

    def wait_for_log(self, log: str, message: str = "", timeout: int = 60) -> None:
        wait_until(lambda: log in self.logs(), message or f"{log!r} in the log", timeout=timeout)


@pytest.fixture(params=["celery_redis_broker", "celery_rabbitmq_broker"])
def celery_broker(request):
    """Each broker in a fixed order; pytest-celery's own list is a set, which xdist refuses."""
    broker = request.getfixturevalue(request.param)
    yield broker
    broker.teardown()


@pytest.fixture
def default_redis_broker(start_redis) -> LocalRedis:
    return LocalRedis(start_redis())


@pytest.fixture
def default_redis_backend(start_redis) -> LocalRedis:
    return LocalRedis(start_redis())


@pytest.fixture
def celery_redis_backend(default_redis_backend) -> Iterator[LocalBackend]:
    backend = LocalBackend(default_redis_backend)
    yield backend
    backend.teardown()


@pytest.fixture
def default_rabbitmq_broker(shared_rabbitmq) -> LocalRabbitMQ:
    return LocalRabbitMQ(shared_rabbitmq, shared_rabbitmq.new_vhost())


@pytest.fixture
def default_worker_cls() -> type[CeleryTestWorker]:
    return PromptWorker


@pytest.fixture
def default_worker_container_cls() -> type[CeleryWorkerContainer]:
    return LocalWorker


@pytest.fixture(scope="session")
def default_worker_container_session_cls() -> type[CeleryWorkerContainer]:
    return LocalWorker


@pytest.fixture
def default_worker_container(
    tmp_path,
    default_worker_container_cls,
    default_worker_command,
    default_worker_env,
    default_worker_initial_content,
) -> Iterator[LocalWorker]:
    """The worker, in a folder with the app and task modules that pytest-celery generates."""
    folder = tmp_path / "cluster-worker"
    _write(folder, default_worker_initial_content)
    process = CeleryProcess(
        default_worker_container_cls.worker_name(),
        default_worker_command,
        tmp_path / "cluster-worker.log",
        env={**default_worker_env, "PYTHONPATH": f"{folder}:{ROOT}"},
        cwd=folder,
    )
    container = default_worker_container_cls(process)
    # Its node name, as CeleryTestNode.hostname() will say it.
    process.command = [part.replace("%h", container.id[:12]) for part in process.command]
    try:
        process.start()
        yield container
    finally:
        process.close()


def _write(folder: Path, content: dict[str, bytes]) -> None:
    for name, source in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
