"""A child process in its own session, watched through its log, never left behind."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil

from tests.brokers.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on

LAUNCHER = Path(__file__).with_name("dies_with_parent.py")
REPORTED_LINES = 150

_started: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


class ChildDiedError(AssertionError):
    """A child process ended although it was needed."""


class ChildProcess:
    """One command, which may be started again, with its output in one log file.

    It leads its own session, so everything that it forks can be found and ended with it.
    On Linux it also dies with the *thread* that started it: start it from the test's own thread.
    """

    ready_seconds = 30.0

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        # A killed process can't remove its temporary files: let them lie beside its log.
        self.env = {"TMPDIR": str(log.parent), **(env or {})}
        self.cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: list[int] = []
        self._run_offset = 0

    # life

    def start(self, *, wait_ready: bool = True, timeout: float | None = None) -> Self:
        """Start the command and, unless told otherwise, wait until it is ready for use."""
        self.spawn()
        if wait_ready:
            self.wait_for(self.is_ready, "being ready", timeout=timeout or self.ready_seconds)
        return self

    def is_ready(self) -> bool:
        """Whether this run can be used; what that means is each server's own."""
        return True

    def restart(self) -> Self:
        """Ask it to stop, wait until it did, and start the same command again."""
        if self.running:
            self.stop()
        return self.start()

    def spawn(self) -> None:
        """Start the command and return at once."""
        self._run_offset = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            self._process = self._launch({**os.environ, **self.env}, output)
        self._sessions.append(self._process.pid)
        _started.add(self)

    def _launch(self, env: Mapping[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-IS", str(LAUNCHER), str(os.getpid()), *self.command],
            env=env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        assert self._process, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process else None

    def send_signal(self, number: int) -> None:
        """Signal the main process only."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the main process to stop, and return at once."""
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = 15.0) -> int:
        """Wait for the main process to end; its exit code."""
        wait_until(lambda: not self.running, f"{self.name} to end", timeout=timeout)
        return self._process.returncode  # type: ignore[union-attr]

    def stop(self, timeout: float = 15.0) -> int:
        """Ask it to stop and wait until it did; its exit code."""
        self.terminate()
        return self.wait(timeout)

    def kill(self, *, main_only: bool = False) -> None:
        """SIGKILL everything in its session, or only the main process, and wait for its end."""
        if main_only:
            self.send_signal(signal.SIGKILL)
        else:
            for process in self.members():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        if self._process:
            self._process.wait(10)

    def close(self) -> None:
        """End whatever is left of it; fail if something can't be ended."""
        if not self._process:
            return

        def gone() -> bool:
            self.kill()
            return not self.members()

        wait_until(gone, lambda: f"the end of {self.members()} of {self.name}", timeout=5)
        _started.discard(self)

    # what it is made of

    def members(self) -> list[psutil.Process]:
        """Every live process in the sessions it led, itself included."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def children(self) -> list[psutil.Process]:
        """The live processes below the main one."""
        return psutil.Process(self.pid).children(recursive=True)

    def _owns(self, process: psutil.Process) -> bool:
        try:
            return (
                os.getsid(process.pid) in self._sessions
                and process.status() != psutil.STATUS_ZOMBIE
            )
        except (ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            return False

    # what it says

    def log_text(self, *, all_runs: bool = False) -> str:
        """What this run has logged so far, or every run."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(0 if all_runs else self._run_offset)
            return file.read().decode(errors="replace")

    def wait_for_log(
        self, pattern: str, timeout: float = PATIENCE_SECONDS, *, all_runs: bool = False
    ) -> re.Match[str]:
        """Wait until the regular expression matches in this run's log."""
        return self.wait_for(
            lambda: re.search(pattern, self.log_text(all_runs=all_runs), re.MULTILINE),
            f"{pattern!r} in the log of {self.name}",
            timeout=timeout,
        )

    def wait_for(self, fact: Callable[[], object], what: str, *, timeout: float = PATIENCE_SECONDS):
        """``wait_until`` that gives up at once when the process has ended, and shows its log."""

        def seen_or_dead() -> object:
            # Asked in this order: a process may say the last word and end.
            running = self.running
            found = fact()
            if not found and not running:
                raise ChildDiedError(
                    f"{self.name} ended with {self.exit_code} before {what}:\n{self.report()}"
                )
            return found

        return wait_until(seen_or_dead, lambda: f"{what}:\n{self.report()}", timeout=timeout)

    def report(self) -> str:
        """The end of its log, for a failing test."""
        return "\n".join(self.log_text(all_runs=True).splitlines()[-REPORTED_LINES:])


def free_port() -> int:
    """A loopback port that nobody listens on, and that no outgoing connection will take.

    Below the usual ephemeral range, or a restarted server may find its port taken by a client.
    Not from ``random``, which hypothesis seeds.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            return port


@atexit.register
def _kill_what_is_left() -> None:
    """For an interpreter that ends without pytest's finalizers."""
    for process in list(_started):
        with contextlib.suppress(Exception):
            process.kill()
