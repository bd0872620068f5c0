"""What ran, when and in which order: a file that tasks append to and a test reads.

One entry is one ``write`` to a file opened with ``O_APPEND``, so processes and threads share it,
and nothing of it touches the broker under test.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.brokers.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from celery import Task

VARIABLE = "JOURNAL"


@dataclass(frozen=True)
class Entry:
    """One line: ``event`` is start, finish, retry or error, or whatever a task recorded."""

    event: str
    label: str
    task_id: str
    name: str
    kind: str | None
    at: float
    pid: int
    thread: int
    more: dict[str, object] = field(default_factory=dict)


# the task's side


def record(event: str, label: object, task: Task | None = None, **more: object) -> None:
    """Append one entry; without the environment's JOURNAL do nothing."""
    if not (path := os.environ.get(VARIABLE)):
        return
    request = task.request if task else None
    entry = {
        "event": event,
        "label": str(label),
        "task_id": request.id or "" if request else "",
        "name": task.name if task else "",
        "kind": _kind(request) if request else None,
        "at": time.time(),
        "pid": os.getpid(),
        "thread": threading.get_ident(),
        "more": more,
    }
    os.write(_file(path), json.dumps(entry).encode() + b"\n")


@contextlib.contextmanager
def recorded(task: Task, label: object) -> Iterator[None]:
    """Journal the start of a task's body, and its finish, retry or error."""
    record("start", label, task)
    try:
        yield
    except BaseException as error:
        event = "retry" if type(error).__name__ == "Retry" else "error"
        record(event, label, task, error=repr(error))
        raise
    record("finish", label, task)


def _kind(request: object) -> str | None:
    """The kind in celery-fair's message header, read without its code."""
    header = getattr(request, "fair", None)
    if header is None:
        header = (getattr(request, "headers", None) or {}).get("fair")
    return header.get("kind") if isinstance(header, dict) else None


@functools.cache
def _file(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


# the test's side


class Journal:
    """Reads what tasks have recorded, in the order of writing."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, event: str | None = None, *, kind: str | None = None) -> list[Entry]:
        """All entries so far, or those of one event or kind."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]  # a last line may be half written
        found = [Entry(**json.loads(line)) for line in lines]
        return [
            entry for entry in found if event in (None, entry.event) and kind in (None, entry.kind)
        ]

    def labels(self, event: str = "start", *, kind: str | None = None) -> list[str]:
        """The labels of one event's entries, in order."""
        return [entry.label for entry in self.entries(event, kind=kind)]

    def started(self) -> list[str]:
        return self.labels("start")

    def finished(self) -> list[str]:
        return self.labels("finish")

    def running(self) -> list[str]:
        """Labels that started and have not ended, one for each execution."""
        open_runs: list[tuple[str, str]] = []
        for entry in self.entries():
            run = (entry.task_id, entry.label)
            if entry.event == "start":
                open_runs.append(run)
            elif entry.event in ("finish", "retry", "error") and run in open_runs:
                open_runs.remove(run)
        return [label for _, label in open_runs]

    def wait(
        self,
        fact: Callable[[list[Entry]], object],
        timeout: float = PATIENCE_SECONDS,
        what: str = "",
    ) -> list[Entry]:
        """Wait until ``fact(entries)`` is true; the entries it was true of."""
        seen: list[Entry] = []

        def holds() -> bool:
            seen[:] = self.entries()
            return bool(fact(seen))

        wait_until(
            holds, lambda: f"{what or 'the journal'}; it says:\n{self.text()}", timeout=timeout
        )
        return seen

    def wait_started(self, *labels: str, timeout: float = PATIENCE_SECONDS) -> list[Entry]:
        """Wait until each label has started."""
        return self._wait_labels("start", labels, timeout)

    def wait_finished(self, *labels: str, timeout: float = PATIENCE_SECONDS) -> list[Entry]:
        """Wait until each label has finished."""
        return self._wait_labels("finish", labels, timeout)

    def wait_count(
        self, count: int, event: str = "finish", timeout: float = PATIENCE_SECONDS
    ) -> list[Entry]:
        """Wait until there are at least ``count`` entries of ``event``."""
        return self.wait(
            lambda entries: sum(entry.event == event for entry in entries) >= count,
            timeout,
            f"{count} × {event}",
        )

    def text(self) -> str:
        """One line an entry, seconds from the first, for a failing test."""
        entries = self.entries()
        return "\n".join(
            f"{entry.at - entries[0].at:8.3f} {entry.event:7} {entry.label} "
            f"{entry.kind or '-'} {entry.name} pid {entry.pid} {entry.more or ''}"
            for entry in entries
        )

    def _wait_labels(self, event: str, labels: tuple[str, ...], timeout: float) -> list[Entry]:
        def all_there(entries: list[Entry]) -> bool:
            return set(labels) <= {entry.label for entry in entries if entry.event == event}

        return self.wait(all_there, timeout, f"{event} of {labels}")
