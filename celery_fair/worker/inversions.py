"""Tasks that may be waiting for their own children, which wait for a slot.

An interactive task that asks for the result of a batch one (``.get()``) is as slow as batch, and
holds its slot meanwhile; and where every slot is held so, nothing ever ends. Whether a task asks, a
worker can't see. That it has published what waits, the header ``parent_id`` tells.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.worker import internals
from celery_fair.worker.lanes import Held, Lane
from celery_fair.worker.slots import Slot

logger = logging.getLogger(__name__)

SUSPECT_SECONDS: Final = 5.0
"""So long a parent has run, and its child waited: one that only publishes has ended by then."""

LOOKED_AT: Final = 1000
"""Held messages of a lane that are looked at; a lane holds a few as a rule."""

TOLD: Final = 200
"""Names of tasks of which it has been said."""

NAMED: Final = 50
"""Parents and children that the doctor is told of."""

LONGEST: Final = 128
"""Characters of an id: whoever publishes may write anything there."""


class Stuck(NamedTuple):
    """A running task, and how many of its children wait here, by their kind."""

    slot: Slot
    children: Mapping[Kind, int]

    @property
    def is_inverted(self) -> bool:
        return self.slot.kind == INTERACTIVE and BATCH in self.children


def stuck(slots: Iterable[Slot], lanes: Mapping[Kind, Lane], now: float) -> list[Stuck]:
    """The tasks that have run for a while, and whose children have waited here for as long."""
    parents = dict(_old(slots, now))
    if not parents:
        return []
    waiting: dict[str, Counter[Kind]] = {}
    for kind, lane in lanes.items():
        for held in islice(list(lane), LOOKED_AT):
            parent = _parent(held)
            if parent in parents and now - held.received_at >= SUSPECT_SECONDS:
                waiting.setdefault(parent, Counter())[kind] += 1
    return [Stuck(parents[id], children) for id, children in waiting.items()]


def running(slots: Iterable[Slot], now: float) -> list[dict[str, Any]]:
    """The tasks that have run for a while, the oldest first, for who knows more of children."""
    old = sorted(_old(slots, now), key=lambda one: one[1].started_at)[:NAMED]
    return [
        {"id": id, "task": slot.request.task.name, "kind": slot.kind,
         "seconds": round(now - slot.started_at, 1)}
        for id, slot in old
    ]  # fmt: skip


def parents(lanes: Mapping[Kind, Lane]) -> dict[str, dict[str, int]]:
    """How many messages of each parent are held, by kind; of the parents that have the most."""
    found = {
        kind: Counter(map(_parent, islice(list(lane), LOOKED_AT))) for kind, lane in lanes.items()
    }
    return {
        kind: {id: number for id, number in counted.most_common(NAMED) if id}
        for kind, counted in found.items()
    }


class Inversions:
    """Says in the log what it finds, once for a task's name."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def look(
        self, slots: Iterable[Slot], number: int, lanes: Mapping[Kind, Lane], now: float
    ) -> None:
        """Look at what runs and what is held here; ``number`` is how many slots there are."""
        found = stuck(slots, lanes, now)
        if len(found) >= number and self._is_new("deadlock", found[0].slot):
            logger.warning(
                "celery-fair: every slot (%d) has a task whose children wait here for one. If they "
                "wait for them too (.get()), none of them will ever end: %s",
                number,
                ", ".join(sorted({one.slot.request.task.name for one in found})[:5]),
            )
        for one in found:
            if one.is_inverted and self._is_new("inversion", one.slot):
                _warn(one, now)

    def _is_new(self, what: str, slot: Slot) -> bool:
        said = (what, slot.request.task.name)
        if said in self._told or len(self._told) >= TOLD:
            return False
        self._told.add(said)
        return True


def _warn(one: Stuck, now: float) -> None:
    slot = one.slot
    logger.warning(
        "celery-fair: %s[%s] is interactive, has run for %.0f s, and has published batch tasks "
        "that wait here (%d). If it waits for them (.get()), it is as slow as batch, and holds a "
        "slot: publish them with kind='interactive', or end the task and go on in a callback. Said "
        "once for this task",
        slot.request.task.name,
        str(slot.request.id)[:LONGEST],
        now - slot.started_at,
        one.children[BATCH],
    )


def _old(slots: Iterable[Slot], now: float) -> Iterator[tuple[str, Slot]]:
    for slot in slots:
        if slot.request is not None and now - slot.started_at >= SUSPECT_SECONDS:
            yield str(slot.request.id)[:LONGEST], slot


def _parent(held: Held) -> str:
    headers = internals.message_of(held.request).headers
    parent = headers.get("parent_id") if isinstance(headers, dict) else None
    return parent[:LONGEST] if isinstance(parent, str) else ""
