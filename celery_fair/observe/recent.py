"""What a worker's last tasks have come to, by id; never arguments or results."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from celery_fair.observer import Observer, TaskInfo

if TYPE_CHECKING:
    from celery_fair.worker.slots import Slot

KEPT: Final = 1000
"""Tasks, in about half a megabyte: a line each, whatever they were called with."""

LONGEST: Final = 255
"""Characters of an id and of a queue's name: whoever publishes chooses them."""

GIVEN_BACK: Final = "given_back"
"""Beside the words of `celery_fair.observe.endings`: it went back to the broker."""

_READ: Final = attrgetter("request.id", "request.task.name", "request.delivery_info")
_ROUTING_KEY: Final = itemgetter("routing_key")


class Ended(NamedTuple):
    """One message of a task that this worker is done with; times are epoch seconds."""

    task: TaskInfo
    at: float


class Recent(Observer):
    """Keeps what has left its slot, was dropped, or was given back: the last `KEPT` of each two.

    Those that ran are taken over at ticks with all their figures in the slot that they had. What
    went without a slot has a list of its own: a flood of it must not wash away the others.
    """

    def __init__(self) -> None:
        self._ran: deque[tuple[Any, Any, Any, Slot]] = deque(maxlen=KEPT)
        self._unrun: deque[Ended] = deque(maxlen=KEPT)
        self._seen = 0

    @property
    def forgotten(self) -> int:
        """How many were kept once, and are no more."""
        return self._seen - len(self._ran) - len(self._unrun)

    def __len__(self) -> int:
        return len(self._ran) + len(self._unrun)

    def ended(self, slots: Sequence[Slot]) -> None:
        """Keep tasks that have left their slots; before the slots let go of their requests."""
        self._seen += len(slots)
        slots = slots[-KEPT:]
        try:  # as nearly all of them are; nothing here is a step of Python for each
            ids, names, infos = zip(*map(_READ, slots), strict=True)
            queues = [*map(_ROUTING_KEY, infos)]
            if not _are_short((*ids, *queues)):
                raise ValueError
            self._ran.extend(zip(ids, names, queues, slots, strict=True))
        except (AttributeError, KeyError, TypeError, ValueError):
            self._ran.extend(_carefully(slot) for slot in slots)

    def dropped(self, task: TaskInfo) -> None:
        self._keep(task)

    def given_back(self, task: TaskInfo) -> None:
        self._keep(task._replace(outcome=GIVEN_BACK))

    def _keep(self, task: TaskInfo) -> None:
        self._seen += 1
        queue = None if task.queue is None else _short(task.queue)
        short = task._replace(id=_short(task.id), queue=queue)
        self._unrun.append(Ended(short, time.time()))

    def of(self, id: str) -> list[Ended]:
        """What has become of the messages of one id, the latest first; attempts have the same."""
        short = _short(id)
        found = [_told(*one) for one in list(self._ran) if one[0] == short]
        found += [ended for ended in list(self._unrun) if ended.task.id == short]
        return sorted(found, key=lambda ended: -ended.at)

    def last(self, number: int) -> list[Ended]:
        """The last so many, the latest first."""
        found = [_told(*one) for one in list(self._ran)[-number:]] + list(self._unrun)[-number:]
        return sorted(found, key=lambda ended: -ended.at)[:number]


def _are_short(texts: tuple[Any, ...]) -> bool:
    return set(map(type, texts)) == {str} and max(map(len, texts)) <= LONGEST


def _short(text: Any) -> str:
    return str(text)[:LONGEST]


def _carefully(slot: Slot) -> tuple[Any, Any, Any, Slot]:
    request = slot.request
    queue = (request.delivery_info or {}).get("routing_key")
    return _short(request.id), request.task.name, _short(queue or ""), slot


def _told(id: str, name: str, queue: str, slot: Slot) -> Ended:
    to_epoch = time.time() - monotonic()
    task = TaskInfo(
        slot.kind,
        name,
        id,
        queue or None,
        enqueued_at=slot.ready_at,
        pulled_at=slot.received_at + to_epoch,
        started_at=slot.started_at + to_epoch,
        finished_at=slot.finished_at + to_epoch,
        mode=slot.mode.value,
        outcome=slot.outcome,
    )
    return Ended(task, slot.finished_at + to_epoch)
