"""Fixtures: the session's brokers, brokers of a test's own, and a broker by name."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kombu.transport import memory

from tests.brokers import rabbitmq
from tests.brokers.broker import Broker, filesystem_broker, memory_broker, sqlite_broker
from tests.brokers.process import ChildProcess
from tests.brokers.rabbitmq import RabbitMQServer
from tests.brokers.redis import DATABASES, RedisServer
from tests.brokers.whole_files import write_whole_files

#: The processes of a test whose logs go into its report when it fails.
PROCESSES = pytest.StashKey[list[ChildProcess]]()


def watch(request: pytest.FixtureRequest, process: ChildProcess) -> None:
    """Add the log of ``process`` to the report of the requesting test, should it fail."""
    request.node.stash.setdefault(PROCESSES, []).append(process)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for process in item.stash.get(PROCESSES, []):
            report.sections.append((f"log of {process.name}", process.report()))


def need(binary: str, path: str | None) -> None:
    """Skip on a laptop without ``binary``; fail where CI is set, or a hole looks green."""
    if path:
        return
    reason = f"{binary} is not installed; `make test` installs it where it may"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


# Servers of the session


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory) -> Iterator[RedisServer]:
    """The session's Redis; use ``redis_url``, which gives a test a database of its own."""
    need("redis-server", shutil.which("redis-server"))
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="session")
def shared_rabbitmq(tmp_path_factory) -> Iterator[RabbitMQServer]:
    """The session's RabbitMQ; use ``rabbitmq_url``, which gives a test a virtual host."""
    need("rabbitmq-server", rabbitmq.script("rabbitmq-server"))
    server = RabbitMQServer(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="session")
def _redis_databases() -> Iterator[int]:
    return itertools.cycle(range(DATABASES))


@pytest.fixture
def redis_url(shared_redis, _redis_databases) -> str:
    """An empty database of the session's Redis."""
    database = next(_redis_databases)
    with shared_redis.client(database) as client:
        client.flushdb()
    return shared_redis.url_of(database)


@pytest.fixture
def rabbitmq_url(shared_rabbitmq) -> str:
    """A fresh virtual host of the session's RabbitMQ."""
    return shared_rabbitmq.url_of(shared_rabbitmq.new_vhost())


# Servers of a test's own


@pytest.fixture
def start_redis(request, tmp_path) -> Iterator[Callable[..., RedisServer]]:
    """``start_redis(append_only=…, config={…})``: own servers, to kill and restart."""
    need("redis-server", shutil.which("redis-server"))
    yield from _factory(request, tmp_path, RedisServer)


@pytest.fixture
def start_rabbitmq(request, tmp_path) -> Iterator[Callable[..., RabbitMQServer]]:
    """``start_rabbitmq(config={…})``: own servers (6–10 s each), to kill and restart."""
    need("rabbitmq-server", rabbitmq.script("rabbitmq-server"))
    yield from _factory(request, tmp_path, RabbitMQServer)


@pytest.fixture
def redis_server(start_redis) -> RedisServer:
    """An own Redis that a test may kill and restart."""
    return start_redis()


@pytest.fixture
def rabbitmq_server(start_rabbitmq) -> RabbitMQServer:
    """An own RabbitMQ that a test may kill and restart."""
    return start_rabbitmq()


def _factory(request, tmp_path: Path, server_class) -> Iterator[Callable[..., ChildProcess]]:
    servers = []

    def start(**options):
        name = f"{server_class.binary}-{len(servers)}"
        folder = tmp_path / name
        folder.mkdir()
        server = server_class(folder, name=name, **options)
        servers.append(server)
        watch(request, server)
        return server.start()

    yield start
    for server in servers:
        server.close()


# A broker by name


@pytest.fixture
def broker(request, tmp_path) -> Broker:
    """The broker named by an indirect parameter; Redis without one.

    ``@pytest.mark.parametrize("broker", ["redis", "rabbitmq", "filesystem"], indirect=True)``,
    or the same as a mark: ``@pytest.mark.brokers("redis", "rabbitmq")``. Names: redis, rabbitmq,
    memory (one process only), filesystem, sqlite.
    """
    return _BROKERS[getattr(request, "param", "redis")](request, tmp_path)


@pytest.fixture
def broker_url(broker) -> str:
    """The URL of ``broker``."""
    return broker.url


def _redis(request, tmp_path: Path) -> Broker:
    url = request.getfixturevalue("redis_url")
    return Broker("redis", url, url)


def _rabbitmq(request, tmp_path: Path) -> Broker:
    return Broker("rabbitmq", request.getfixturevalue("rabbitmq_url"), "rpc://")


def _memory(request, tmp_path: Path) -> Broker:
    # kombu keeps queues and bindings of memory:// for the life of the process.
    memory.Transport.global_state.clear()
    memory.Channel.queues.clear()
    memory.Channel.events.clear()
    return memory_broker()


def _filesystem(request, tmp_path: Path) -> Broker:
    write_whole_files(request.getfixturevalue("monkeypatch"))
    return filesystem_broker(tmp_path / "filesystem-broker")


_BROKERS: dict[str, Callable[[pytest.FixtureRequest, Path], Broker]] = {
    "redis": _redis,
    "rabbitmq": _rabbitmq,
    "memory": _memory,
    "filesystem": _filesystem,
    "sqlite": lambda request, tmp_path: sqlite_broker(tmp_path / "sqlite-broker"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mark = metafunc.definition.get_closest_marker("brokers")
    if mark:
        metafunc.parametrize("broker", mark.args, indirect=True)
