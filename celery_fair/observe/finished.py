"""What plain Celery has made of each task while a worker observed: when, how long, which kind.

Numbers alone, no name and no argument: 17 bytes a task, so that a worker may know many of them. It
is what a replay needs to tell what celery-fair would have made of the same tasks.
"""

from __future__ import annotations

import base64
import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.worker.outcomes import WITHDRAWN

if TYPE_CHECKING:
    from celery_fair.worker.slots import Slot

KEPT: Final = 100_000
"""Tasks, in 1.7 MB: what a worker of ten a second does in nearly three hours."""
PAGE: Final = 2_500
"""Tasks in one answer: the worker's loop packs them in ten milliseconds."""
_IS_BATCH, _IS_UNDATED, _IS_LATE = 1, 2, 4


class Finished(NamedTuple):
    """A task that has left its slot; ``ready_at`` is epoch seconds.

    ``dated``: whether its message said when it could run; else that is when it was received.
    ``late``: whether its message is acknowledged only at its end.
    """

    ready_at: float
    wait_seconds: float
    run_seconds: float
    kind: Kind
    dated: bool = True
    late: bool = False

    @property
    def started_at(self) -> float:
        return self.ready_at + self.wait_seconds

    @property
    def finished_at(self) -> float:
        return self.ready_at + self.wait_seconds + self.run_seconds


class FinishedTasks:
    """The last `KEPT` tasks of one worker, in the order in which they ended."""

    def __init__(self, begun_at: float, kept: int = KEPT) -> None:
        self._begun_at = begun_at
        self._kept = kept
        self._ready = array("d")
        self._waits, self._runs = array("f"), array("f")
        self._flags = array("B")
        self.total = 0
        """How many have ended since it began; the number of the next one."""

    def __len__(self) -> int:
        return len(self._flags)

    @property
    def oldest(self) -> int:
        """The number of the first that is still known."""
        return self.total - len(self)

    @property
    def since(self) -> float:
        """The time from which on every task that ended is known."""
        if not self.oldest:
            return self._begun_at
        return next(iter(self.between(self.oldest, self.oldest + 1))).finished_at

    def ended(self, slots: Sequence[Slot], to_epoch: float) -> None:
        """Keep tasks that have left their slots; before the slots let go of their requests."""
        for slot in slots:
            if slot.outcome != WITHDRAWN:
                self._add(slot, to_epoch)

    def _add(self, slot: Slot, to_epoch: float) -> None:
        started_at = slot.started_at + to_epoch
        ready_at = slot.received_at + to_epoch if slot.ready_at is None else slot.ready_at
        flags = _IS_BATCH if slot.kind == BATCH else 0
        if slot.ready_at is None:
            flags |= _IS_UNDATED
        if getattr(slot.request.task, "acks_late", False):
            flags |= _IS_LATE
        wait = max(started_at - ready_at, 0.0)
        run = slot.finished_at - slot.started_at
        if len(self) < self._kept:
            self._ready.append(started_at - wait)
            self._waits.append(wait)
            self._runs.append(run)
            self._flags.append(flags)
        else:
            at = self.total % self._kept
            self._ready[at], self._waits[at] = started_at - wait, wait
            self._runs[at], self._flags[at] = run, flags
        self.total += 1

    def between(self, first: int, end: int) -> Iterator[Finished]:
        """Yield the tasks of these numbers, as far as they are still known."""
        for number in range(max(first, self.oldest), min(end, self.total)):
            at = number % self._kept
            yield _made(self._ready[at], self._waits[at], self._runs[at], self._flags[at])

    def page(self, before: int | None = None, most: int = PAGE) -> dict[str, Any]:
        """The last ``most`` tasks before that number, packed; ``first`` is the number of the first.

        Where ``first`` is ``oldest`` there are no others.
        """
        end = self.total if before is None else max(min(before, self.total), self.oldest)
        first = max(end - min(max(most, 1), PAGE), self.oldest)
        return {
            "since": self.since,
            "oldest": self.oldest,
            "first": first,
            "tasks": packed(list(self.between(first, end))),
        }


def packed(tasks: Sequence[Finished]) -> str:
    """Tasks as one text; `unpacked` reads it."""
    number = len(tasks)
    flags = bytes(map(_flags_of, tasks))
    columns = [
        struct.pack(f"<{number}d", *(task.ready_at for task in tasks)),
        struct.pack(f"<{number}f", *(task.wait_seconds for task in tasks)),
        struct.pack(f"<{number}f", *(task.run_seconds for task in tasks)),
        flags,
    ]
    return base64.b64encode(zlib.compress(b"".join(columns), 1)).decode()


def unpacked(text: str) -> list[Finished]:
    """Read what `packed` has made. Raises ValueError for anything else."""
    try:
        data = zlib.decompress(base64.b64decode(text))
    except (zlib.error, TypeError) as error:
        raise ValueError(f"expected tasks as a worker packs them, got {text!r:.40}") from error
    number, rest = divmod(len(data), 17)
    if rest:
        raise ValueError(f"expected 17 bytes for each task, got {len(data)}")
    ready = struct.unpack_from(f"<{number}d", data)
    waits = struct.unpack_from(f"<{number}f", data, 8 * number)
    runs = struct.unpack_from(f"<{number}f", data, 12 * number)
    return list(map(_made, ready, waits, runs, data[16 * number :]))


def _made(ready_at: float, wait_seconds: float, run_seconds: float, flags: int) -> Finished:
    kind: Kind = BATCH if flags & _IS_BATCH else INTERACTIVE
    dated, late = not flags & _IS_UNDATED, bool(flags & _IS_LATE)
    return Finished(ready_at, wait_seconds, run_seconds, kind, dated, late)


def _flags_of(task: Finished) -> int:
    undated = 0 if task.dated else _IS_UNDATED
    return (task.kind == BATCH) * _IS_BATCH | undated | task.late * _IS_LATE


def since_of(page: Mapping[str, Any], tasks: Sequence[Finished]) -> float:
    """From when on all tasks of a worker are known, with these read, ``page`` the last of them."""
    if page["first"] == page["oldest"] or not tasks:
        return float(page["since"])
    return tasks[0].finished_at
