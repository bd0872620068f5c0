"""The places that a worker has been granted, each given back exactly once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection
from threading import Lock
from typing import Final

from celery_fair.resources.store import Ended, Want
from celery_fair.worker.outcomes import WITHDRAWN
from celery_fair.worker.slots import Slot

IDLE_SECONDS: Final = 1.0
"""After so long a place that has found no slot here is another worker's to use."""


class Grant:
    """One lease; ``slot`` once its task has begun, and ``claimed`` just before that."""

    __slots__ = ("at", "claimed", "slot", "want")

    def __init__(self, want: Want, at: float) -> None:
        self.want = want
        self.at = at
        self.claimed = False
        self.slot: Slot | None = None


class Places:
    """Written by the loop and by the thread that asks the store; so everything here is one step.

    Whatever frees a place comes by `end`, and the first to come gives it back. ``taken`` says
    whether a slot is in use: one that isn't any more holds nothing, whoever should have said so.
    """

    def __init__(self, taken: Callable[[Slot], bool]) -> None:
        self._taken = taken
        self._grants: dict[str, Grant] = {}
        self._ended: deque[Ended] = deque()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._grants)

    def __contains__(self, lease: object) -> bool:
        return lease in self._grants

    def grant(self, want: Want, now: float) -> None:
        """The store has granted it; a second time changes nothing."""
        with self._lock:
            self._grants.setdefault(want.lease, Grant(want, now))

    def claim(self, lease: str) -> bool:
        """Its task is about to begin: from now on it isn't lost; False if it is already."""
        with self._lock:
            grant = self._grants.get(lease)
            if grant is None:
                return False
            grant.claimed = True
            return True

    def begin(self, lease: str, slot: Slot) -> None:
        """Its task has a slot."""
        grant = self._grants.get(lease)
        if grant is not None:
            grant.slot = slot

    def end(self, lease: str, *, began: bool) -> bool:
        """Give it back; False if it was given back before."""
        with self._lock:
            if self._grants.pop(lease, None) is None:
                return False
            self._ended.append(Ended(lease, began))
            return True

    def sweep(self) -> None:
        """Give back what belongs to slots that are in use no longer."""
        for lease, grant in list(self._grants.items()):
            if grant.slot is not None and not self._taken(grant.slot):
                self.end(lease, began=grant.slot.outcome != WITHDRAWN)

    def unbegun(self) -> list[Grant]:
        """Those whose task has no slot yet."""
        return [grant for grant in list(self._grants.values()) if grant.slot is None]

    def by_resource(self) -> Counter[str]:
        """How many are held of each."""
        return Counter(name for grant in list(self._grants.values()) for name in grant.want.uses)

    def end_all(self) -> None:
        """The worker ends, and nothing of it runs any more."""
        for lease, grant in list(self._grants.items()):
            self.end(lease, began=grant.slot is not None)

    def lose(self, leases: Collection[str]) -> int:
        """They had run out: what has not begun must ask anew; return how many of them run."""
        running = 0
        for lease in leases:
            with self._lock:
                grant = self._grants.get(lease)
                if grant is None:
                    continue
                if grant.claimed:
                    running += 1
                    continue
                del self._grants[lease]
                self._ended.append(Ended(lease, began=False))
        return running

    def report(self) -> tuple[list[Want], list[Ended]]:
        """What is held, and what was given back since the last report."""
        with self._lock:
            ended = list(self._ended)
            self._ended.clear()
            return [grant.want for grant in self._grants.values()], ended

    def report_again(self, ended: Collection[Ended]) -> None:
        """The report has reached nobody."""
        with self._lock:
            self._ended.extendleft(reversed(list(ended)))

    @property
    def has_news(self) -> bool:
        """Whether something was given back of which the store hasn't heard."""
        return bool(self._ended)
