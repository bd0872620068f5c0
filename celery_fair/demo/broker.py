"""The demo's broker: a Redis server of its own, or a stand-in for one."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sys
from dataclasses import dataclass
from typing import Any

from celery_fair.demo.processes import Child, Children, DemoError

CURE = 'pip install "celery-fair[demo]"'


@dataclass(frozen=True, slots=True)
class DemoBroker:
    """Where it is, and what to call it."""

    name: str
    port: int

    def url(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"


def start_broker(children: Children) -> DemoBroker:
    """Start ``redis-server`` from the PATH, else fakeredis; raises `DemoError` for neither."""
    if importlib.util.find_spec("redis") is None:
        raise DemoError(f"The demo talks to Redis, and the package redis is missing: {CURE}")
    server = shutil.which("redis-server")
    if server is not None:
        return _redis_server(children, server)
    if importlib.util.find_spec("fakeredis") is None:
        raise DemoError(
            f"The demo needs a broker, and found neither redis-server on the PATH nor fakeredis: "
            f"install Redis, or {CURE}"
        )
    return _fake_redis(children)


def _redis_server(children: Children, path: str) -> DemoBroker:
    port = _free_port()
    options = {"port": port, "bind": "127.0.0.1", "dir": children.folder, "appendonly": "no"}
    command = [path, "--save", ""]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    child = children.start("redis-server", command)
    client = _client(port)
    child.wait_for(lambda: _answers(client), "answer to a ping")
    version = client.info("server")["redis_version"]
    client.close()
    return DemoBroker(f"redis-server {version}", port)


def _fake_redis(children: Children) -> DemoBroker:
    child = children.start("fakeredis", [sys.executable, "-m", "celery_fair.demo.fake_redis"])
    port = child.wait_for(lambda: _first_line(child), "port")
    client = _client(int(port))
    child.wait_for(lambda: _answers(client), "answer to a ping")
    client.close()
    return DemoBroker("fakeredis, a stand-in for Redis", int(port))


def _first_line(child: Child) -> str:
    line, newline, _ = child.log.read_text().partition("\n")
    return line if newline and line.isdigit() else ""


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _client(port: int) -> Any:
    import redis

    return redis.Redis(port=port, socket_connect_timeout=1.0, socket_timeout=1.0)


def _answers(client: Any) -> bool:
    import redis

    try:
        return bool(client.ping())
    except redis.RedisError:  # not listening yet
        return False
