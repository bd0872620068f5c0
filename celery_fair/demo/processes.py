"""Child processes that end with the demo, however it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, TypeVar

from celery_fair.errors import FairError

LAUNCHER: Final = Path(__file__).with_name("tied.py")
SHOWN_LINES: Final = 15
POLL_SECONDS: Final = 0.02

Fact = TypeVar("Fact")


class DemoError(FairError):
    """The demo can't run: the message says why and what to do."""


class Child:
    """One process, which leads its own session, so that all that it forks ends with it."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-IS", str(LAUNCHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )

    def wait_for(self, fact: Callable[[], Fact], what: str, seconds: float = 20.0) -> Fact:
        """Return the first true value of ``fact()``; raises `DemoError` with the log's end."""
        end = time.monotonic() + seconds
        while not (value := fact()):
            if self._process.poll() is not None:
                raise DemoError(f"{self.name} ended before {what}:\n{self.said()}")
            if time.monotonic() >= end:
                raise DemoError(f"{self.name}: no {what} in {seconds:g} s:\n{self.said()}")
            time.sleep(POLL_SECONDS)
        return value

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def said(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-SHOWN_LINES:])

    def kill(self) -> None:
        """End it and its children at once; there is nothing here that is worth finishing."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def reap(self) -> None:
        self._process.wait()


class Children:
    """All children of the demo: none is left when the block ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._children: list[Child] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # First all signals, then the waiting: a second Ctrl-C must find nothing left to kill.
        for child in self._children:
            child.kill()
        for child in self._children:
            child.reap()

    def start(self, name: str, command: Sequence[str], **env: str) -> Child:
        """Start a command with these variables added to the environment."""
        log = self.folder / f"{len(self._children)}-{name.replace(' ', '-')}.log"
        # A killed worker can't remove the temporary files of its pool; ours go with the folder.
        own = {"PYTHONUNBUFFERED": "1", "TMPDIR": str(self.folder)}
        child = Child(name, command, log, {**os.environ, **own, **env})
        self._children.append(child)
        return child

    def stop(self, child: Child) -> None:
        child.kill()
        child.reap()
        self._children.remove(child)


@contextlib.contextmanager
def ends_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM, and a terminal that is closed, clean up as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


#: Variables by which a shell that is set up for another app would redirect ours.
FOREIGN: Final = ("APP", "BROKER_URL", "RESULT_BACKEND", "LOADER", "CONFIG_MODULE")


@contextlib.contextmanager
def own_environment() -> Iterator[None]:
    """Take out of the environment what is meant for another Celery app."""
    before = dict(os.environ)
    for name in before:
        if name in FOREIGN or name.startswith("CELERY_"):
            del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(before)
