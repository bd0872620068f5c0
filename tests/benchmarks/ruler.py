"""Finds the ruler, and runs its commands in processes that can be interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "RULER"
STOP_SECONDS = 40.0

_live: set[subprocess.Popen[bytes]] = set()


class MeasuringError(RuntimeError):
    """A command of the ruler failed, or measured less than it was asked to."""


def folder() -> Path | None:
    """The ruler's folder: that of the environment, else the one beside the checkout."""
    place = Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "ruler").resolve()
    return place if (place / "mixed_load").is_dir() else None


def why_not() -> str | None:
    """Why nothing can be measured here, or None."""
    if folder():
        return None
    return f"the ruler is not here: set {VARIABLE} to its folder, the one with mixed_load in it"


def run(module: str, *arguments: object, output: Path) -> int:
    """Run ``python -m module …`` with the ruler and this checkout on the path; its exit code.

    In a session of its own, so that an interruption reaches the process in which a trial runs.
    """
    paths = [str(ROOT), str(folder()), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with output.open("wb") as text:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=output.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=text,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _live.add(process)
        try:
            return process.wait()
        except BaseException:
            _interrupt(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            raise
        finally:
            _live.discard(process)


def interrupt_all() -> None:
    """Have all that runs stop its workers and end: for other threads than the one that waits."""
    for process in list(_live):
        _interrupt(process)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
