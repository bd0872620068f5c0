"""A worker in a process of its own, for pools that the tests' process can't hold."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from celery_fair.demo.processes import Child, Children

POOLS: Final = ("prefork",)
START_SECONDS: Final = 60.0
SPEC: Final = "CELERY_FAIR_TEST_WORKER"
END: Final = "end"
READY: Final = "ready"

Take = Callable[[str, Mapping[str, Any]], None]


class Wire:
    """A pipe with a name: the worker writes what its observer is told, one line each."""

    def __init__(self, path: Path, take: Take) -> None:
        os.mkfifo(path, 0o600)
        # Open at both ends, so that neither waits for the other, and no end is the pipe's.
        self._file = os.open(path, os.O_RDWR)
        self._take = take
        self.is_ready = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        while True:
            *lines, rest = (rest + os.read(self._file, 65536)).split(b"\n")
            for line in lines:
                hook, told = json.loads(line)
                if hook == END:
                    return
                if hook == READY:
                    self.is_ready = True
                else:
                    self._take(hook, told)

    def close(self) -> None:
        send(self._file, END, {})
        self._thread.join()
        os.close(self._file)


def send(file: int, hook: str, told: Mapping[str, Any]) -> None:
    """Write one line, in one piece."""
    os.write(file, json.dumps([hook, told]).encode() + b"\n")


@contextmanager
def apart(
    spec: dict[str, Any], folder: Path, take: Take, environ: Mapping[str, str]
) -> Iterator[Child]:
    """Start the worker that ``spec`` describes; it is killed at the end, with all its children."""
    pipe = folder / "told"
    wire = Wire(pipe, take)
    try:
        with Children(folder) as children:
            child = children.start(
                "the worker",
                [sys.executable, "-m", "celery_fair.testing.apart_worker"],
                **environ,
                PYTHONPATH=os.pathsep.join(path or os.getcwd() for path in sys.path),
                **{SPEC: json.dumps({**spec, "pipe": str(pipe), "sent_at": time.time()})},
            )
            child.wait_for(lambda: wire.is_ready, "being ready", START_SECONDS)
            yield child
    finally:
        wire.close()
