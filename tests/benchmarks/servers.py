"""A broker of a measurement's own, so that measurements can run side by side."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.brokers import rabbitmq
from tests.brokers.broker import Broker
from tests.brokers.process import ChildDiedError
from tests.brokers.rabbitmq import RabbitMQServer
from tests.brokers.redis import RedisServer

ATTEMPTS = 3

Server = TypeVar("Server", RedisServer, RabbitMQServer)


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A running server that nobody else uses."""

    broker: Broker
    version: str
    connections: Callable[[], int]


def why_not(name: str) -> str | None:
    """Why there can't be a server of this name here, or None."""
    binary = f"{name}-server"
    found = shutil.which(binary) if name == "redis" else rabbitmq.script(binary)
    return None if found else f"{binary} is not installed"


@contextlib.contextmanager
def own_server(name: str) -> Iterator[OwnServer]:
    """Start ``redis`` or ``rabbitmq`` in a temporary folder, and end it with the block."""
    with _started(RedisServer if name == "redis" else RabbitMQServer) as server:
        yield _of_redis(server) if isinstance(server, RedisServer) else _of_rabbitmq(server)


@contextlib.contextmanager
def _started(server_class: type[Server]) -> Iterator[Server]:
    """Try again if it dies: its port was free when it was chosen, but may be taken by now."""
    for left in reversed(range(ATTEMPTS)):
        with (
            tempfile.TemporaryDirectory(prefix="fair-bench-", ignore_cleanup_errors=True) as place,
            contextlib.closing(server_class(Path(place))) as server,
        ):
            try:
                server.start()
            except ChildDiedError:
                if not left:
                    raise
                continue
            yield server
            return


def _of_redis(server: RedisServer) -> OwnServer:
    def connections() -> int:
        with server.client() as client:
            return len(client.client_list()) - 1

    with server.client() as client:
        version = client.info("server")["redis_version"]
    return OwnServer(Broker("redis", server.url, server.url), f"Redis {version}", connections)


def _of_rabbitmq(server: RabbitMQServer) -> OwnServer:
    def connections() -> int:
        # The first line is a heading.
        return len(server.ctl("list_connections", "pid").splitlines()[1:])

    version = server.ctl("version").strip()
    return OwnServer(Broker("rabbitmq", server.url, "rpc://"), f"RabbitMQ {version}", connections)
