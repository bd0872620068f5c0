"""One run of one task: from where Celery calls it to its end, or to the point where it yields."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from billiard.process import current_process

from celery_fair.yielding.board import Board, digest_of
from celery_fair.yielding.places import Places
from celery_fair.yielding.words import Yielding, decode, encode

if TYPE_CHECKING:
    from celery_fair.yielding.runs import Runs

#: How long a task goes on whose continuation could not be published, before it is tried again; and
#: each time twice as long: it sets itself up anew for each.
AGAIN_SECONDS: Final = 1.0

running: Final[ContextVar[Run | None]] = ContextVar("celery_fair_run", default=None)
"""The run that the code is a part of. Coroutines have it too, and threads that are given a copy of
the context; a task that is called directly or eagerly has none, as it has no message to go on in.
"""

_NO_CELL: Final = memoryview(bytes(1))
_NEVER: Final = 256
"""What no byte is."""

_changing: Final = Lock()
"""A run and threads that its task has started may begin to use it at once, or as it ends."""


class Run:
    """What this run started with, how far it has come, and whether it is asked to yield."""

    __slots__ = (
        "_at", "_board", "_bytes", "_cell", "_looks", "_not_before", "_owned", "_pause_seconds",
        "checked", "cut_off", "in_chunk", "number", "places", "request", "runs", "state", "task",
    )  # fmt: skip

    def __init__(self, runs: Runs, task: Any, request: Any) -> None:
        self.runs = runs
        self.task = task
        self.request = request
        self.cut_off: Yielding | None = None
        """What has ended a loop of it, and must end the run too, though the task catch it."""
        self.number = 0
        """In its cell, once it has used what can yield: until then a run costs next to nothing."""

    def enter(self) -> None:
        """Say that it can yield from now on, and read what it starts with."""
        with _changing:
            if not self.number:
                self._enter()

    def _enter(self) -> None:
        request, runs = self.request, self.runs
        self._at, self._bytes = 0, _NO_CELL
        self._board, self._looks, self._cell = None, None, None
        self._not_before, self.checked, self._owned = 0.0, False, False
        self._pause_seconds = 0.0
        # The message of a job's chunk is not its items': the chunk looks by itself, between two.
        self.in_chunk = request is not None and "fair_chunk" in vars(request)
        has_message = (
            request is not None
            and runs.enabled
            and not (request.called_directly or request.is_eager)
        )
        self.start_with(decode(request.headers) if has_message else {})
        self._board = board = runs.board
        index = self._take(board) if has_message and board is not None else None
        if board is None or index is None:
            self.number = _NEVER
            return
        self._cell, self._looks = index, runs.looks
        self._at, self._bytes = board.at(index), board.bytes
        self.number = board.enter(index, digest_of(request.id), monotonic())

    def start_with(self, saved: Mapping[str, Any]) -> None:
        """Be where an earlier run was when it yielded."""
        self.state: tuple[Any] | None = (saved["state"],) if "state" in saved else None
        self.places = Places(saved.get("loops"))

    def _take(self, board: Board) -> int | None:
        number = getattr(current_process(), "index", None)
        if number is None:  # the main process of a pool of threads or greenlets
            self._owned = True
            return board.take()
        return int(number) + 1 if number < board.cells else None

    def is_asked(self) -> bool:
        """Whether it should yield: the comparison of two bytes, but for the first time."""
        if not self.number:
            self.enter()
        if self._bytes[self._at] == self.number:
            return True
        if self._looks is None or not self._looks():
            return False
        self._bytes[self._at] = self.number  # it is: until it has yielded
        return True

    def entered(self) -> Run:
        """This, as one that can yield."""
        if not self.number:
            self.enter()
        return self

    def saved(self) -> dict[str, Any]:
        """What a continuation from here would start with."""
        found: dict[str, Any] = {}
        if self.state is not None:
            found["state"] = self.state[0]
        loops = self.places.saved()
        if loops is not None:
            found["loops"] = loops
        return found

    def check(self, what: str) -> None:
        """Raise `BadState` at the first state that can't be saved, long before one must be."""
        if not self.checked:
            self.checked = True
            encode(self.saved(), what)

    def give_way(self, *, ends_loop: bool = False) -> None:
        """Leave the task, unless that has just failed: raises `Yielding`.

        Of a loop that it ends nothing is left to go on with, whoever catches it.
        """
        now = monotonic()
        if now < self._not_before or self.in_chunk:
            return
        if self._board is not None and self._cell is not None:
            self._board.react(self._cell, now)
        yielding = Yielding(self, self.saved())  # now: as the loops are left, their places are
        if ends_loop:
            self.cut_off = yielding
        raise yielding

    def go_on(self, saved: Mapping[str, Any]) -> None:
        """It could not yield after all, and is called anew in its slot, from where it was."""
        self.start_with(saved)
        self.cut_off = None
        self._pause_seconds = max(2 * self._pause_seconds, AGAIN_SECONDS)
        self._not_before = monotonic() + self._pause_seconds

    def leave(self) -> None:
        """It has ended. A thread that it has left behind is asked for nothing any more."""
        with _changing:
            self.request = None
            if not self.number:
                return
            board, cell = self._board, self._cell
            self.number, self._at, self._bytes = _NEVER, 0, _NO_CELL
            self._looks = self._cell = None
            if board is not None and cell is not None:
                board.leave(cell)
                if self._owned:
                    board.give_back(cell)
