"""What a worker grants by itself, while the store of resources can't be asked.

Interactive tasks go on and batch falls to its share, within what this worker has or its part of the
fleet's: so a limit is exceeded by no more than what ran as the store went away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from celery_fair.policy.parts import batch_places, part_of, places_without_asking
from celery_fair.resources.memory_store import MemoryStore
from celery_fair.resources.rules import Resource
from celery_fair.resources.store import RENEW_SECONDS, Ended, Short, Turn, Wait, Want


class Line(NamedTuple):
    """This worker's slots ``[first, last)`` among ``total`` of the fleet."""

    first: int
    last: int
    total: int


class Outage:
    """Begun as the store stops answering; one thread's."""

    def __init__(
        self,
        rules: Mapping[str, Resource],
        line: Callable[[], Line],
        held: Collection[Want],
        clock: Callable[[], float],
    ) -> None:
        self._rules = rules
        self._line = line
        self._held = _counted(held)
        self._seen = line()
        self.without: set[str] = set()
        """Resources of which this worker has no place at all."""
        self._parts = self._divided()
        self._store = MemoryStore(self._parts, clock=clock)

    def turn(
        self, worker: str, wants: Sequence[Want], running: Collection[Want], ended: Sequence[Ended]
    ) -> Turn:
        """As `ResourceStore.turn`, for this worker's part alone."""
        line = self._line()
        # Above its part it goes on with what ran; but one that knows of no part has nothing else.
        left = self._held & _counted(running) if line.last > line.first else self._held
        if (line, left) != (self._seen, self._held):
            self._seen, self._held = line, left
            self._parts.update(self._divided())
        may = [want for want in wants if self.without.isdisjoint(want.uses)]
        answer = self._store.turn(worker, may, running, ended)
        waits = {
            **answer.waits,
            **{want.lease: self._wait(want) for want in wants if want not in may},
        }
        return Turn(answer.granted, waits, ())  # it has never heard of what the other has granted

    def _wait(self, want: Want) -> Wait:
        """Why it isn't even asked for here."""
        missing = next(name for name in want.uses if name in self.without)
        return Wait(missing, Short.RUNNING, RENEW_SECONDS)

    def _divided(self) -> dict[str, Resource]:
        parts = {name: self._part(rule) for name, rule in self._rules.items()}
        self.without = {name for name, rule in parts.items() if rule.max_running == 0}
        return parts

    def _part(self, rule: Resource) -> Resource:
        first, last, total = self._seen
        ratio = (last - first) / total if total else 0.0
        requests, tokens = rule.requests_per_minute, rule.tokens_per_minute
        most = rule.max_running
        if most is not None:
            part = part_of(most, first, last, total, rule.name)
            most = places_without_asking(self._held[rule.name], part)
        return replace(
            rule,
            max_running=most,
            requests_per_minute=None if requests is None else requests * ratio,
            tokens_per_minute=None if tokens is None else tokens * ratio,
            interactive_reserve=_reserve(rule, most),
        )


def _counted(wants: Collection[Want]) -> Counter[str]:
    return Counter(name for want in wants for name in want.uses)


def _reserve(rule: Resource, places: int | None) -> float:
    """What batch leaves free: all but its share."""
    kept = 1.0 - rule.batch_share
    if places:
        kept = 1.0 - batch_places(places, rule.batch_share) / places
    return max(kept, rule.interactive_reserve)
