"""Asking a task to yield after each so many of its items, and what has come of it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.yielding.run import running

COUNTED: Final = "fair_items_counted"
"""An attribute of a running request: how often the task has asked."""
WORDS: Final = struct.Struct("=ii")


@dataclass(frozen=True, slots=True)
class Interrupted:
    """Work that has borne it: ``times`` it was stopped and went on; ``result`` is what was asked.

    ``result`` is the ``AsyncResult`` of a task, or the `celery_fair.Job`.
    """

    times: int
    result: Any


class Countdown:
    """After how many items to stop, for all processes of a worker; 0 while nobody is stopped."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(WORDS.pack(0, 0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), WORDS.size)

    @property
    def most_asked(self) -> int:
        """How many items the longest run has had since `set`."""
        return int(WORDS.unpack(self._memory[:])[1])

    def set(self, items: int) -> None:
        self._memory[:] = WORDS.pack(items, 0)

    def stop(self) -> None:
        """Stop nobody any more."""
        self._memory[:] = WORDS.pack(0, self.most_asked)

    def is_up(self) -> bool:
        """Whether the task that asks has done its items; called each time that one asks."""
        limit, most = WORDS.unpack(self._memory[:])
        run = running.get()
        if not limit or run is None:
            return False
        # A chunk of a job asks once before its first item.
        counted = vars(run.request).get(COUNTED, -1 if run.in_chunk else 0) + 1
        setattr(run.request, COUNTED, counted)
        if counted > most:
            self._memory[:] = WORDS.pack(limit, counted)
        return bool(counted >= limit)


def count_down(fair: Fair, countdown: Countdown) -> None:
    """Have all tasks of this process ask ``countdown`` as well; before they run."""
    before: Callable[[], bool] | None = fair.runs.looks

    def looks() -> bool:
        return countdown.is_up() or (before is not None and before())

    fair.runs.looks = looks


@contextmanager
def interrupting(countdown: Countdown, items: int) -> Iterator[None]:
    """Stop each run after so many items, as long as the block runs."""
    countdown.set(items)
    try:
        yield
    finally:
        countdown.stop()
