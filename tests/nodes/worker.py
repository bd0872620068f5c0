"""A Celery worker as a child process."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, ClassVar

import psutil
import redis

from tests.brokers.broker import Broker
from tests.brokers.process import ChildProcess
from tests.nodes.nursery import ROOT, Forked, Nursery

# Mingling costs a second of every start, and one worker has nobody to gossip with.
QUIET_FLAGS = ("--without-mingle", "--without-gossip")
DEAF_SECONDS = 3.0
"""How long a worker may not listen that says it is ready: some never will, or not directly."""


class CeleryProcess(ChildProcess):
    """A worker by its whole command; ready when *this run* has logged so (at loglevel INFO)."""

    nursery: ClassVar[Nursery | None] = None
    """Where there is one, as in pytest, a worker is forked from it if that makes no difference."""

    def is_ready(self) -> bool:
        return re.search(r"\S+@\S+ ready\.$", self.log_text(), re.MULTILINE) is not None

    def _launch(
        self, env: Mapping[str, str], output: IO[bytes]
    ) -> subprocess.Popen[bytes] | Forked:
        if self.nursery is not None and self.nursery.can(self.command, env, self.cwd):
            return self.nursery.fork(self.command, env, output)
        return super()._launch(env, output)


class WorkerProcess(CeleryProcess):
    """``python -m celery -A APP worker …`` of one broker, with its log in a file.

    A context manager: started and ready inside the block, with no process left after it.
    """

    def __init__(
        self,
        app: str,
        broker: Broker,
        log: Path,
        *,
        backend: str | None = None,
        pool: str = "threads",
        concurrency: int = 2,
        queues: Sequence[str] | str | None = None,
        hostname: str = "w1@test",
        loglevel: str = "INFO",
        args: Sequence[str] = (),
        flags: Sequence[str] = QUIET_FLAGS,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.hostname = hostname
        command = [sys.executable, "-m", "celery", "-A", app, "worker"]
        command += ["-P", pool, "-c", str(concurrency), "-n", hostname, "-l", loglevel]
        if queues:
            command += ["-Q", queues if isinstance(queues, str) else ",".join(queues)]
        settings = {**broker.environ(), "PYTHONUNBUFFERED": "1", **(env or {})}
        if backend is not None:
            settings["BACKEND"] = backend
        super().__init__(hostname, [*command, *flags, *args], log, env=settings, cwd=cwd)
        self._broker = broker
        self._said_so: tuple[int, float] | None = None
        self._ready_pid: int | None = None

    def is_ready(self) -> bool:
        """Over Redis it listens a moment after it says so, and what nobody listens to is lost."""
        if not super().is_ready():
            return False
        if self._ready_pid != self.pid:
            if self._said_so is None or self._said_so[0] != self.pid:
                self._said_so = self.pid, time.monotonic()
            if not self._listens() and time.monotonic() - self._said_so[1] < DEAF_SECONDS:
                return False
            self._ready_pid = self.pid
        return True

    def _listens(self) -> bool:
        """Whether Redis knows of a subscription of this worker: that to remote control."""
        if not self._broker.url.startswith("redis://127.0.0.1:"):
            return True
        try:
            ports = {one.laddr.port for one in psutil.Process(self.pid).net_connections()}
            with redis.Redis.from_url(self._broker.url, socket_timeout=1.0) as client:
                return any(
                    int(one["psub"]) + int(one["sub"])
                    for one in client.client_list()
                    if int(one["addr"].rsplit(":", 1)[1]) in ports
                )
        except (psutil.Error, redis.RedisError):
            return True

    def __enter__(self) -> WorkerProcess:
        return self if self.running else self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()
