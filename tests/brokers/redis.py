"""A Redis server of one's own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import redis

from tests.brokers.process import ChildProcess, free_port

DATABASES = 64


class RedisServer(ChildProcess):
    """``redis-server`` on a free port; keeps its port over restarts, and with AOF its data."""

    binary = "redis-server"

    def __init__(
        self,
        folder: Path,
        *,
        append_only: bool = False,
        config: Mapping[str, str] | None = None,
        name: str = "redis",
    ) -> None:
        self.port = free_port()
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "databases": str(DATABASES),
            "save": "",
            "appendonly": "yes" if append_only else "no",
            "appendfsync": "always",
            **(config or {}),
        }
        command = [shutil.which(self.binary) or self.binary]
        for option, value in options.items():
            command += [f"--{option}", value]
        super().__init__(name, command, folder / f"{name}.log")

    @property
    def url(self) -> str:
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def client(self, database: int = 0) -> redis.Redis:
        """A client that the caller closes: ``with server.client() as client``."""
        return redis.Redis(port=self.port, db=database, decode_responses=True)

    def is_ready(self) -> bool:
        """Whether it answers, and not another that took the port just before it."""
        try:
            with self.client() as client:
                return bool(client.info("server")["process_id"] == self.pid)
        except redis.ConnectionError:  # not listening yet, or still loading its AOF
            return False
