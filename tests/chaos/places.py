"""Whether a resource ever had more tasks than places, from the journal alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple

from celery_fair.errors import StateAway
from celery_fair.resources.store import LEASE_SECONDS, RENEW_SECONDS, ResourceStore
from tests.apps.chaotic import PLACES
from tests.chaos.account import DEATHS, ENDS, GRACE_SECONDS, Trouble
from tests.chaos.plan import STALL
from tests.nodes.journal import Entry

AWAY = ("cut", "broker", "broker killed")
"""What a worker's connection to the store may not survive: then it goes by its own part."""
AWAY_SECONDS = LEASE_SECONDS + 10.0
"""For so long after it: until it asks again, and what it began meanwhile has mostly ended."""


class Use(NamedTuple):
    """One run of a task that had a place."""

    began: float
    ended: float
    place: str
    worker: str
    pid: int


def above_limit(entries: Sequence[Entry], troubles: Sequence[Trouble]) -> Iterator[str]:
    """Complain of each moment with more tasks than places that nothing explains.

    What ran in a worker as it came to stand still for longer than a lease goes on beside the tasks
    that have got its places since; all others are no more than there are places.
    """
    uses = list(_uses(entries, troubles))
    stalls = [one for one in troubles if one.what == STALL]
    away = [(one.at, one.until + AWAY_SECONDS) for one in troubles if one.what in AWAY]
    for use in uses:
        running = [
            one
            for one in uses
            if one.began <= use.began < one.ended and not _lost(one, stalls, use.began)
        ]
        excused = any(begin <= use.began <= end for begin, end in away)
        if len(running) > (2 * PLACES if excused else PLACES):
            yield (
                f"{len(running)} tasks with a place at once, and there are {PLACES}: "
                f"{', '.join(one.place for one in running)} at {use.began:.3f}"
            )


def _lost(use: Use, stalls: Iterable[Trouble], at: float) -> bool:
    """Whether the place of a run may be another's by then, though it goes on."""
    return any(
        one.worker == use.worker
        and one.pid in (None, use.pid)
        and use.began <= one.at + GRACE_SECONDS
        and at >= one.at + LEASE_SECONDS - RENEW_SECONDS - GRACE_SECONDS
        for one in stalls
    )


def most_at_once(entries: Sequence[Entry], troubles: Sequence[Trouble]) -> int:
    """How many had a place at the same time at the most."""
    uses = list(_uses(entries, troubles))
    return max((sum(o.began <= u.began < o.ended for o in uses) for u in uses), default=0)


def leaked(store: ResourceStore) -> Iterator[str]:
    """Complain of places that the store still thinks taken, or wanted, after all have ended.

    What died with a worker comes back as its lease ends.
    """
    found: list[str] = ["resources: nobody can be asked"]
    end = time.monotonic() + AWAY_SECONDS
    while found and time.monotonic() < end:
        with suppress(StateAway):
            found = [
                f"{view.name}: {dict(view.running)} run and {dict(view.waiting)} wait, at rest"
                for view in store.views()
                if any(view.running.values()) or any(view.waiting.values())
            ]
        time.sleep(0.2)
    yield from found


def _uses(entries: Sequence[Entry], troubles: Iterable[Trouble]) -> Iterator[Use]:
    deaths = [one for one in troubles if one.what in DEATHS]
    running: dict[tuple[int, int], Entry] = {}
    """By process and thread: whatever starts next there, what was before has ended."""
    for entry in entries:
        where = entry.pid, entry.thread
        if entry.event != "start" and entry.event not in ENDS:
            continue
        before = running.pop(where, None)
        if before is not None:
            yield _use(before, _death(before, deaths, entry.at))
        if entry.event == "start" and "place" in entry.more:
            running[where] = entry
    for entry in running.values():
        yield _use(entry, _death(entry, deaths, inf))


def _use(start: Entry, ended: float) -> Use:
    more = start.more
    return Use(start.at, ended, str(more["place"]), str(more.get("worker", "")), start.pid)


def _death(entry: Entry, deaths: Iterable[Trouble], ended: float) -> float:
    """When a run was ended by force, if it was: a journal has no line of that.

    It may have begun while the signal was on its way.
    """
    worker = entry.more.get("worker")
    by_force = [
        one.at - GRACE_SECONDS
        for one in deaths
        if one.worker == worker and one.until >= entry.at and one.pid in (None, entry.pid)
    ]
    return min([ended, *by_force])
