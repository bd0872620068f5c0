"""One walk along the lines of those who wait: who of one worker may run, who else is to be woken.

Batch that is owed comes first, then interactive, then batch; within each, who asked first. Whoever
lacks something keeps what it lacks from those behind, or many small tasks would starve a large one;
it keeps nothing else, so that it stands in nobody's way who uses something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.resources.rules import Resource
from celery_fair.resources.shared import REQUESTS, TOKENS, Draft, Shared
from celery_fair.resources.store import Short, Wait, Want

ORDER: Final[tuple[tuple[Kind, bool], ...]] = (
    (BATCH, True),
    (INTERACTIVE, False),
    (BATCH, False),
)
"""Kinds, and whether only those of it who are owed."""


@dataclass(slots=True)
class Line:
    """Those of one kind who use the same, by when they asked first."""

    kind: Kind
    uses: tuple[str, ...]
    waiting: list[tuple[int, str, str, int]] = field(default_factory=list)
    """Number, worker, lease, tokens."""
    place: int = 0
    """How many have had their turn in this walk."""
    lacks: tuple[str, Short, float] | None = None
    """What its first lacks, once that is known, and when to ask again."""

    @property
    def first(self) -> tuple[int, str, str, int] | None:
        return self.waiting[self.place] if self.place < len(self.waiting) else None


class Walk:
    """``get`` tells the rule and the state of a resource; the caller takes what is granted."""

    def __init__(
        self,
        lines: list[Line],
        get: Callable[[str], tuple[Resource, Shared]],
        worker: str,
        is_asleep: Callable[[str], bool],
    ) -> None:
        self._lines = lines
        self._get = get
        self._worker = worker
        self._is_asleep = is_asleep
        self._drafts: dict[str, Draft] = {}
        self._closed: dict[str, tuple[Short, float]] = {}
        self._granted: set[str] = set()
        self.to_wake: list[str] = []

    def grants(self) -> Iterator[str]:
        """Yield leases of the worker's own, each to be taken before the next is asked for."""
        for kind, only_owed in ORDER:
            passed: list[Line] = []
            while (line := self._next(kind, passed)) is not None:
                if only_owed and not self._goes_first(line):
                    passed.append(line)
                    continue
                lease = self._try(line)
                if lease is not None:
                    yield lease

    def _next(self, kind: Kind, passed: list[Line]) -> Line | None:
        """Return the line whose first has asked before those of all others."""
        found, number = None, 0
        for line in self._lines:
            if line.kind != kind or line.lacks is not None or line in passed:
                continue
            first = self._awake(line)
            if first is not None and (found is None or first < number):
                found, number = line, first
        return found

    def _awake(self, line: Line) -> int | None:
        while line.first is not None:
            number, worker, _, _ = line.first
            if worker == self._worker or not self._is_asleep(worker):
                return number
            line.place += 1
        return None

    def _goes_first(self, line: Line) -> bool:
        """Whether it is owed wherever interactive tasks wait too."""
        contended = False
        for name in line.uses:
            rule, shared = self._get(name)
            if shared.waiting[INTERACTIVE]:
                contended = True
                if not shared.owes(rule, line.waiting[line.place][3], self._draft(name)):
                    return False
        return contended

    def _try(self, line: Line) -> str | None:
        _, worker, lease, tokens = line.waiting[line.place]
        for name in line.uses:
            shut = self._get(name)[1].shuts_out(line.kind)
            short = shut or self._closed.get(name) or self._lacks(name, line.kind, tokens)
            if short is not None:
                if shut is None:
                    self._closed.setdefault(name, short)
                line.lacks = (name, *short)
                return None
        line.place += 1
        if worker == self._worker:
            self._granted.add(lease)
            return lease
        if worker not in self.to_wake:
            self.to_wake.append(worker)
        for name in line.uses:
            self._set_aside(name, line.kind, tokens)
        return None

    def _lacks(self, name: str, kind: Kind, tokens: int) -> tuple[Short, float] | None:
        rule, shared = self._get(name)
        draft = self._draft(name)
        owed = kind == BATCH and shared.owes(rule, tokens, draft)
        return shared.lacks(rule, kind, tokens, draft, owed=owed)

    def _draft(self, name: str) -> Draft:
        return self._drafts.setdefault(name, Draft())

    def _set_aside(self, name: str, kind: Kind, tokens: int) -> None:
        draft = self._draft(name)
        draft.places += 1
        draft.batch += kind == BATCH
        draft.used[0] += 1.0
        draft.used[1] += tokens

    def waits(self, wants: Iterable[Want]) -> dict[str, Wait]:
        """Return what each of the worker's others lacks; it is what the first of its line does."""
        return {want.lease: self._wait(want) for want in wants if want.lease not in self._granted}

    def _wait(self, want: Want) -> Wait:
        uses = tuple(want.uses)
        line = next(one for one in self._lines if one.kind == want.kind and one.uses == uses)
        name, short, seconds = line.lacks or (uses[0], Short.IN_LINE, 0.0)
        waiting = [one[2] for one in line.waiting if one[2] not in self._granted]
        before = waiting.index(want.lease)
        return Wait(name, short, seconds + self._more(name, short, before, want), before)

    def _more(self, name: str, short: Short, before: int, want: Want) -> float:
        """How much later those come to their turn who are not the first to wait for a budget."""
        if short not in (Short.REQUESTS, Short.TOKENS):
            return 0.0
        rule, shared = self._get(name)
        budget = REQUESTS if short is Short.REQUESTS else TOKENS
        need = 1.0 if budget == REQUESTS else float(want.tokens)
        return before * need / ((rule.budgets[budget] or 1.0) * shared.pace.rate)
