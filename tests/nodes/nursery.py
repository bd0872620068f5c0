"""Forks Celery processes off one that has imported what each of them would import for itself.

Half of the CPU that a short test takes went into imports of its worker. What is forked off has an
environment, arguments, a session and output of its own, and runs ``python -m celery …`` from the
first line on. It differs in this from one that is started: what `IMPORTED` brings is there whether
it is needed or not, and the hashes of strings are the same in all that one nursery has forked. So
nothing that workers must agree on may come of `hash`, since no test here would see it.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.brokers.dies_with_parent import die_with_parent

ROOT = Path(__file__).resolve().parents[2]
READ_AT_IMPORT = (
    "PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "C_", "MP_", "KOMBU_", "OTEL_", "PROMETHEUS_",
    "REMAP_SIGTERM", "PICKLE_PROTOCOL",
)  # fmt: skip
"""Beginnings of variables that only a process started with them heeds."""
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
POOLS = ("prefork", "threads", "solo")
"""gevent and eventlet patch what is not imported yet."""
IMPORTED = (
    "celery.apps.worker",
    "celery.backends.redis",
    "celery.backends.rpc",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.worker.consumer",
    "kombu.transport.filesystem",
    "kombu.transport.pyamqp",
    "kombu.transport.redis",
)
LIMIT = 1 << 17


class Forked:
    """As much of ``subprocess.Popen`` as a ``ChildProcess`` uses."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ended(self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired("celery", timeout)
            time.sleep(0.005)
        return code


class Nursery:
    """The process to fork from: started when first asked by the main thread, and dies with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._ended: dict[int, int] = {}
        self._asked = 0
        self._lock = threading.Lock()
        self._environ: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        """Its process, if there is one."""
        return None if self._process is None else self._process.pid

    def can(self, command: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> bool:
        """Whether what is forked would be no other than a process started for itself."""
        if not hasattr(os, "pidfd_open") or list(command[:3]) != [sys.executable, "-m", "celery"]:
            return False
        pool = command[command.index("-P") + 1] if "-P" in command else "prefork"
        if pool not in POOLS or cwd != ROOT:
            return False
        with self._lock:
            started = self._process is not None or self._start()
        return started and _at_import(env) == self._environ

    def fork(self, command: Sequence[str], env: Mapping[str, str], output: IO[bytes]) -> Forked:
        with self._lock:
            self._asked += 1
            request = {"number": self._asked, "argv": list(command[3:]), "env": dict(env)}
            socket.send_fds(self._channel, [json.dumps(request).encode()], [output.fileno()])
            while (message := self._receive())["number"] != self._asked:
                self._take(message)
        assert message["event"] == "begun", f"what was forked ended before it began: {message}"
        return Forked(self, message["pid"])

    def _take(self, message: dict) -> None:
        """Note an end. What has begun for a test that was stopped while it waited is nobody's."""
        if message["event"] == "ended":
            self._ended[message["pid"]] = message["code"]
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(message["pid"], signal.SIGKILL)

    def ended(self, pid: int) -> int | None:
        """The exit code of one that has ended, as ``subprocess`` says it."""
        with self._lock:
            while pid not in self._ended and select.select([self._channel], [], [], 0)[0]:
                self._take(self._receive())
            return self._ended.pop(pid, None)

    def close(self) -> None:
        """End it, and with it what it has forked and is still there."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._channel.close()
            self._process = None

    def _start(self) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return False
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {**os.environ, **UNBUFFERED}
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.nodes.nursery",
                    str(os.getpid()),
                    str(theirs.fileno()),
                ],
                env=env,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._environ = _at_import(env)
        return True

    def _receive(self) -> dict:
        message = self._channel.recv(LIMIT)
        assert message, f"the nursery of workers ended with {self._process.wait(5)}"
        return json.loads(message)


def _at_import(env: Mapping[str, str]) -> dict[str, str]:
    return {name: env[name] for name in env if name.startswith(READ_AT_IMPORT)}


# in the process that is forked from


def serve(channel: socket.socket) -> list[str] | None:
    """Fork as one is asked to; the arguments of ``celery`` in what is forked, else None."""
    born: dict[int, tuple[int, int]] = {}
    """By a handle of each: its process, and the number by which it was asked for."""
    here = os.getpid()
    while True:
        ready = select.select([channel, *born], [], [])[0]
        for handle in set(ready) & set(born):
            _say_ended(channel, *born.pop(handle))
            os.close(handle)
        if channel not in ready:
            continue
        data, handles, _, _ = socket.recv_fds(channel, LIMIT, 1)
        if not data:
            return None
        request = json.loads(data)
        pid = os.fork()
        if not pid:
            for handle in born:
                os.close(handle)
            die_with_parent(here)
            _become(channel, handles[0], request)
            return request["argv"]
        os.close(handles[0])
        born[os.pidfd_open(pid)] = pid, request["number"]


def _say_ended(channel: socket.socket, pid: int, number: int) -> None:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):  # nobody asks any more
        _say(channel, event="ended", number=number, pid=pid, code=code)


def _become(channel: socket.socket, output: int, request: dict) -> None:
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    with channel:
        _say(channel, event="begun", number=request["number"], pid=os.getpid())


def _say(channel: socket.socket, **message: str | int) -> None:
    channel.send(json.dumps(message).encode())


def main(parent: int, handle: int) -> None:
    die_with_parent(parent)
    for name in IMPORTED:
        __import__(name)
    argv = serve(socket.socket(fileno=handle))
    if argv is not None:
        sys.argv[1:] = argv
        runpy.run_module("celery", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(int(sys.argv[1]), int(sys.argv[2]))
