"""A Redis with a replica, and a Sentinel that promotes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import redis

from tests.brokers.process import ChildProcess, free_port

MASTER = "mymaster"


class Sentinel(ChildProcess):
    """``redis-server --sentinel`` with a quorum of one, quick to believe that a master is gone."""

    def __init__(self, folder: Path, master_port: int, *, name: str = "sentinel") -> None:
        self.port = free_port()
        config = folder / f"{name}.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor {MASTER} 127.0.0.1 {master_port} 1\n"
            f"sentinel down-after-milliseconds {MASTER} 500\n"
            f"sentinel failover-timeout {MASTER} 3000\n"
        )
        command = [shutil.which("redis-server") or "redis-server", str(config), "--sentinel"]
        super().__init__(name, command, folder / f"{name}.log")

    @property
    def url(self) -> str:
        return f"sentinel://127.0.0.1:{self.port}/0"

    def state(self) -> dict[str, object]:
        """What it knows of the master."""
        with redis.Redis(port=self.port, decode_responses=True) as client:
            return client.sentinel_master(MASTER)

    def is_ready(self) -> bool:
        """Whether it has found the replica, which it can promote then."""
        try:
            return int(self.state()["num-slaves"]) > 0
        except redis.RedisError:
            return False
