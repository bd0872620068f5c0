"""What `top` has seen of the workers so far."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery_fair.cli.top_facts import checked, plain
from celery_fair.cli.top_waits import NOW_SECONDS, Waits, difference
from celery_fair.observe.cluster import Cluster
from celery_fair.observe.counts import BOUNDS
from celery_fair.observe.total import total
from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind

FORGET_SECONDS = 600.0
"""How long the waits of a worker that is gone are kept, should it come back."""


@dataclass(slots=True)
class Seen:
    """One worker: its last facts, and what has changed in the last minutes."""

    name: str
    facts: dict[str, Any]
    seen_at: float
    waits: Waits = field(default_factory=Waits)
    idle: deque[tuple[float, Mapping[str, float]]] = field(default_factory=deque)
    """When it had stood idle for so many seconds, by reason."""

    def take(self, facts: dict[str, Any], at: float) -> None:
        if facts["started_at"] != self.facts["started_at"]:
            self.idle.clear()
        self.facts, self.seen_at = facts, at
        self.idle.append((at, facts["slots"]["idle_seconds"]))
        while len(self.idle) > 2 and self.idle[1][0] <= at - NOW_SECONDS:
            self.idle.popleft()

    def idle_slots(self) -> dict[str, float]:
        """How many slots stood idle on the mean though something waited, by reason."""
        if len(self.idle) < 2 or self.idle[-1][0] <= self.idle[0][0]:
            return {}
        (since, was), (until, idle) = self.idle[0], self.idle[-1]
        return {
            reason: (seconds - was.get(reason, 0.0)) / (until - since)
            for reason, seconds in idle.items()
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """All that one frame shows; ``now`` is the listener's clock, ``at`` epoch seconds."""

    workers: list[Seen]
    """The worst first."""
    waits: Waits
    notes: list[str]
    now: float
    at: float
    live: bool = True
    """False: nothing was watched, and waits are what the workers say of the last 5 minutes."""

    def total(self) -> dict[str, Any]:
        return total({str(place): worker.facts for place, worker in enumerate(self.workers)})

    def wait(self, worker: Seen, kind: Kind) -> float | None:
        """The p95 of a worker's waits."""
        if not self.live:
            found: float | None = worker.facts["kinds"][kind]["wait_seconds"]["p95"]
            return found
        return worker.waits.now(kind, self.now)

    def total_wait(self, kind: Kind) -> float | None:
        """The p95 over all workers; an upper bound of it if nothing was watched."""
        if self.live:
            return self.waits.now(kind, self.now)
        known = (self.wait(worker, kind) for worker in self.workers)
        return max((wait for wait in known if wait is not None), default=None)

    def sorted(self) -> Picture:
        """The longest wait of interactive tasks first, then shut gates, then batch's waits.

        Waits are compared by their buckets, or the workers would change places all the time.
        """

        def badness(worker: Seen) -> tuple[Any, ...]:
            is_open = worker.facts["gate"]["mode"] == "open"
            waits = (self.wait(worker, kind) for kind in (INTERACTIVE, BATCH))
            interactive, batch = (-1 if w is None else bisect_left(BOUNDS, w) for w in waits)
            return -interactive, is_open, -batch, worker.name

        self.workers.sort(key=badness)
        return self


class Watch:
    """Takes in what a `Cluster` has heard; one thread's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._seen: dict[str, Seen] = {}
        self._shown: list[str] = []
        self._read_at: dict[str, float] = {}
        self.unreadable: set[str] = set()
        self.waits = Waits()
        self.last_word: float | None = None

    def take(self, now: float, lost: bool = False) -> None:
        """Look what is new. While the broker is lost, nobody is gone: nobody could be heard."""
        if lost:
            return
        alive = self._cluster.alive(now)
        for name, heard in alive.items():
            if self._read_at.get(name) != heard.seen_at:
                self._read_at[name] = heard.seen_at
                self._read(name, heard.facts, heard.seen_at)
        self.unreadable &= alive.keys()
        self._shown = [name for name in alive if name not in self.unreadable]
        self._forget(now)

    def _read(self, name: str, told: Mapping[str, Any], at: float) -> None:
        facts = checked(told)
        if facts is None:
            self.unreadable.add(name)
            return
        self.unreadable.discard(name)
        self.last_word = max(at, self.last_word or at)
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = Seen(plain(name), facts, at)
        else:
            counts = difference(seen.facts, facts)
            seen.waits.add(counts, at)
            self.waits.add(counts, at)
        seen.take(facts, at)

    def _forget(self, now: float) -> None:
        for name, at in list(self._read_at.items()):
            if now - at > FORGET_SECONDS:
                self._seen.pop(name, None)
                del self._read_at[name]

    @property
    def is_anybody_there(self) -> bool:
        return bool(self._shown or self.unreadable)

    def picture(self, now: float, at: float, notes: Iterable[str]) -> Picture:
        workers = [self._seen[name] for name in self._shown]
        found = Picture(workers, self.waits, list(notes), now, at)
        return found.sorted()


def still(reports: Mapping[str, Mapping[str, Any]], at: float) -> Picture:
    """What the workers' answers show without having been watched."""
    read = {name: checked(report) for name, report in reports.items()}
    workers = [Seen(plain(name), facts, 0.0) for name, facts in read.items() if facts is not None]
    unreadable = sum(facts is None for facts in read.values())
    picture = Picture(
        workers, Waits(), [unreadable_note(unreadable)] if unreadable else [], 0.0, at, False
    )
    return picture.sorted()


def unreadable_note(number: int) -> str:
    who = "1 worker tells" if number == 1 else f"{number} workers tell"
    return f"{who} facts that can't be read here: is their celery-fair of another version?"
