"""The board on which a worker's main process asks its running tasks to yield.

Each task that can yield has a cell. A child of prefork has that of its index; in pools without
children a task takes one while it runs. All is in one piece of memory that children share, so that
to look whether one is asked is to read a byte: no system call, no lock, nothing allocated.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import weakref
from hashlib import blake2b
from threading import Lock
from typing import Final, NamedTuple

CELL: Final = 32
"""Bytes a cell: ``asked``, ``serial``, and behind these ``digest``, ``entered_at``, ``reacted_at``.

Whose they are: ``asked`` is the main process's, the rest the task's. ``serial`` numbers the tasks
that have had the cell, from 1 to 255 and round; one is asked by writing its number into ``asked``,
so that the next task in the cell never takes it for itself. Times are monotonic seconds, which all
processes of a host share.
"""

SEEN: Final = 0
"""The byte of the first cell, which is nobody's, that is 1 once any task could yield."""
ALL: Final = 1
"""The byte that is 1 when all are to yield, those too that could not be asked yet."""


class Cell(NamedTuple):
    """One that is in use, as the main process reads it."""

    number: int
    serial: int
    digest: int
    entered_at: float


class Board:
    """Memory for so many cells; made before the pool's processes, which inherit it."""

    def __init__(self, cells: int, file: int = -1) -> None:
        """In ``file``, an open one of that length, or else in memory that is inherited."""
        self._memory = mmap.mmap(file, (cells + 1) * CELL)
        self.bytes = memoryview(self._memory)
        self._words, self._times = self.bytes.cast("Q"), self.bytes.cast("d")
        self._lock = Lock()
        self._free = list(range(cells, 0, -1))
        self.cells = cells

    @classmethod
    def named(cls, cells: int) -> tuple[Board, str]:
        """Return a board and the path by which processes that inherit no memory find it.

        On Linux it has no name on a disk, and goes with this process.
        """
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("celery-fair-yielding")
            path = f"/proc/{os.getpid()}/fd/{file}"
        else:
            file, path = tempfile.mkstemp(prefix="celery-fair-yielding-")
        os.ftruncate(file, (cells + 1) * CELL)
        board = cls(cells, file)
        weakref.finalize(board, _forget, file, path)
        return board, path

    @classmethod
    def at_path(cls, path: str) -> Board:
        """Return the board that another process has made; raises OSError if it is gone."""
        file = os.open(path, os.O_RDWR)
        try:
            return cls(os.fstat(file).st_size // CELL - 1, file)
        finally:
            os.close(file)

    # --- the task's side

    def take(self) -> int | None:
        """Return a cell for a task in the main process, or None if there is none left."""
        with self._lock:
            return self._free.pop() if self._free else None

    def give_back(self, index: int) -> None:
        with self._lock:
            self._free.append(index)

    @staticmethod
    def at(index: int) -> int:
        """Return where in ``bytes`` a task reads whether it is asked."""
        return index * CELL

    def enter(self, index: int, digest: int, now: float) -> int:
        """Say that a task can yield from now on; return its number in this cell."""
        at = index * CELL
        number: int = self.bytes[at + 1] % 255 + 1
        self._words[at // 8 + 1] = 0
        self.bytes[at + 1] = number
        self._times[at // 8 + 2], self._times[at // 8 + 3] = now, 0.0
        self.bytes[at] = number if self.bytes[ALL] else 0
        self._words[at // 8 + 1] = digest
        self.bytes[SEEN] = 1
        return number

    def leave(self, index: int) -> None:
        """The task has ended, or can't yield any more."""
        self._words[index * CELL // 8 + 1] = 0

    def react(self, index: int, now: float) -> None:
        """The task has seen that it is asked, and gives way."""
        self._times[index * CELL // 8 + 3] = now

    # --- the main process's side

    @property
    def seen(self) -> bool:
        """Whether a task could ever yield."""
        return self.bytes[SEEN] != 0

    def in_use(self, most: int) -> list[Cell]:
        """The cells of tasks that can yield, among those of a pool of so many slots at the most.

        Of a child that was killed too, until its cell has another. What a task writes meanwhile is
        told by its digest, which is taken away first and put last.
        """
        found = []
        for index in range(1, min(most, self.cells) + 1):
            word = index * CELL // 8 + 1
            digest = self._words[word]
            if digest:
                cell = Cell(index, self.bytes[index * CELL + 1], digest, self._times[word + 1])
                if self._words[word] == digest:
                    found.append(cell)
        return found

    def ask(self, cell: Cell) -> None:
        self.bytes[cell.number * CELL] = cell.serial

    def withdraw(self, cell: Cell) -> None:
        """Ask it no longer; without effect on the next in its cell."""
        if self.bytes[cell.number * CELL] == cell.serial:
            self.bytes[cell.number * CELL] = 0

    def ask_all(self) -> None:
        """Ask all, also those that will be able to yield only later."""
        self.bytes[ALL] = 1
        for cell in self.in_use(self.cells):
            self.ask(cell)

    def reacted_at(self, cell: Cell) -> float | None:
        """When the task saw that it was asked, if it is still in its cell and has."""
        at = self._times[cell.number * CELL // 8 + 3]
        return at if at and self.bytes[cell.number * CELL + 1] == cell.serial else None


def _forget(file: int, path: str) -> None:
    os.close(file)
    if not path.startswith("/proc/"):
        with contextlib.suppress(OSError):
            os.unlink(path)


def digest_of(task_id: str) -> int:
    """Eight bytes that tell one task id from another, the same in each process; never 0."""
    return int.from_bytes(blake2b(task_id.encode(), digest_size=8).digest(), "little") | 1
