"""A local process that looks like a Docker container to pytest-celery.

pytest-celery's containers only wrap an object with ``id name status attrs reload kill restart
logs exec_run``; here that object is a child process, so its nodes, clusters and set-ups run
without Docker.
"""

from __future__ import annotations

import os
import shlex
import signal as signals
import subprocess
import sys
import uuid

from tests.brokers.process import ChildProcess


class ProcessHandle:
    """The part of ``docker.models.containers.Container`` that pytest-celery 1.3 uses."""

    def __init__(self, process: ChildProcess) -> None:
        self.process = process
        self.id = uuid.uuid4().hex
        # No published ports: then a running container counts as ready, and ours are started
        # through a wait for the real thing.
        self.attrs = {
            "Config": {"Hostname": "127.0.0.1", "Env": []},
            "HostConfig": {"PortBindings": {}},
            "NetworkSettings": {"Networks": {}, "Ports": {}},
        }

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def status(self) -> str:
        return "running" if self.process.running else "exited"

    def reload(self) -> None:
        """Nothing is cached."""

    def kill(self, signal: str | int | None = None) -> None:
        number = signals.Signals[signal] if isinstance(signal, str) else signal or signals.SIGKILL
        if number == signals.SIGKILL:
            self.process.kill()
        else:
            self.process.send_signal(number)

    def restart(self, timeout: float = 10) -> None:
        self.process.restart()

    def logs(self) -> bytes:
        return self.process.log_text(all_runs=True).encode()

    def exec_run(self, command: str | list[str]) -> tuple[int, bytes]:
        arguments = shlex.split(command) if isinstance(command, str) else list(command)
        if arguments[0] == "python":
            arguments[0] = sys.executable
        done = subprocess.run(
            arguments,
            cwd=self.process.cwd,
            env={**os.environ, **self.process.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout
