"""Starts the workers of a contestant, whatever its library."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mixed_load.fleet import Fleet

LAUNCHER = Path(__file__).parents[2] / "brokers" / "dies_with_parent.py"


@dataclass(frozen=True, slots=True)
class Worker:
    """One process to start: what follows ``python -m``, its slots, and who reports readiness."""

    arguments: Sequence[str]
    slots: int
    reports: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def running(workers: Sequence[Worker], log: Path) -> Iterator[Fleet]:
    """Each leads a session, in which the ruler's ``Fleet`` finds its children."""
    with log.open("ab") as output:
        started = [_start(worker, output.fileno()) for worker in workers]
        fleet = Fleet(started)
        try:
            yield fleet
        finally:
            fleet.stop()
            _end({process.pid for process in started})


def _end(sessions: set[int]) -> None:
    """Kill what is left in them: the children of a process that was killed go on without it."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) in sessions:
                os.kill(int(entry.name), signal.SIGKILL)


def _start(worker: Worker, output: int) -> subprocess.Popen[bytes]:
    launcher = [sys.executable, "-IS", str(LAUNCHER), str(os.getpid())]
    return subprocess.Popen(
        [*launcher, sys.executable, "-m", *worker.arguments],
        env={**os.environ, **worker.environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
