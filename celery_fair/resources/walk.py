"""One walk along the lines of those who wait: who of one worker may run, who else is to be woken.

Batch that is owed comes first, then interactive, then batch; within each, who asked first. Whoever
lacks something keeps what it lacks from those behind, or many small tasks would starve a large one;
it keeps nothing else, so that it stands in nobody's way who uses something else. But who uses
several and has waited for long is kept a place of each: else those who use one would always be
quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.resources.rules import Resource
from celery_fair.resources.shared import REQUESTS, TOKENS, Draft, Shared
from celery_fair.resources.store import RENEW_SECONDS, Short, Wait, Want

ORDER: Final[tuple[tuple[Kind, bool], ...]] = (
    (BATCH, True),
    (INTERACTIVE, False),
    (BATCH, False),
)
"""Kinds, and whether only those of it who are owed."""


PATIENT_SECONDS: Final = 10.0
"""Who has waited for so long for several resources at once is kept a place of each."""

MOST_GRANTED: Final = 32
MOST_SET_ASIDE: Final = 64
"""Redis does nothing else during a walk: what is left over is for the next."""


class InLine(NamedTuple):
    """One who waits; ``since`` is of the clock that bounds leases."""

    number: int
    worker: str
    lease: str
    tokens: int
    since: float


@dataclass(slots=True)
class Line:
    """Those of one kind who use the same, by when they asked first."""

    kind: Kind
    uses: tuple[str, ...]
    waiting: list[InLine] = field(default_factory=list)
    place: int = 0
    """How many have had their turn in this walk."""
    lacks: tuple[str, Short, float] | None = None
    """What its first lacks, once that is known, and when to ask again."""

    @property
    def first(self) -> InLine | None:
        return self.waiting[self.place] if self.place < len(self.waiting) else None


class Walk:
    """``get`` tells the rule and the state of a resource; the caller takes what is granted."""

    def __init__(
        self,
        lines: list[Line],
        get: Callable[[str], tuple[Resource, Shared]],
        worker: str,
        is_asleep: Callable[[str], bool],
        at: float,
    ) -> None:
        self._lines = lines
        self._get = get
        self._worker = worker
        self._is_asleep = is_asleep
        self._at = at
        self._drafts: dict[str, Draft] = {}
        self._closed: dict[str, tuple[Short, float]] = {}
        self._granted: set[str] = set()
        self._aside = 0
        self.to_wake: list[str] = []

    def grants(self) -> Iterator[str]:
        """Yield leases of the worker's own, each to be taken before the next is asked for."""
        for kind, only_owed in ORDER:
            passed: list[Line] = []
            while not self._is_long and (line := self._next(kind, passed)) is not None:
                if only_owed and not self._goes_first(line):
                    passed.append(line)
                    continue
                lease = self._try(line)
                if lease is not None:
                    yield lease

    @property
    def _is_long(self) -> bool:
        return len(self._granted) >= MOST_GRANTED or self._aside >= MOST_SET_ASIDE

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
            worker = line.first.worker
            if worker == self._worker or not self._is_asleep(worker):
                return line.first.number
            line.place += 1
        return None

    def _goes_first(self, line: Line) -> bool:
        """Whether it is owed wherever interactive tasks wait too."""
        contended = False
        for name in line.uses:
            rule, shared = self._get(name)
            if shared.waiting[INTERACTIVE]:
                contended = True
                if not shared.owes(rule, line.waiting[line.place].tokens, self._draft(name)):
                    return False
        return contended

    def _try(self, line: Line) -> str | None:
        _, worker, lease, tokens, since = line.waiting[line.place]
        for name in line.uses:
            shut = self._get(name)[1].shuts_out(line.kind)
            short = shut or self._closed.get(name) or self._lacks(name, line.kind, tokens)
            if short is not None:
                if shut is None and name not in self._closed:
                    self._closed[name] = short
                    if self._is_kept_places(short, since):
                        self._set_aside(line, tokens)
                line.lacks = (name, *short)
                return None
        line.place += 1
        if worker == self._worker:
            self._granted.add(lease)
            return lease
        if worker not in self.to_wake:
            self.to_wake.append(worker)
        self._aside += 1
        self._set_aside(line, tokens)
        return None

    def _is_kept_places(self, short: tuple[Short, float], since: float) -> bool:
        """Whether others, who use only one of what it uses, leave it a place of each.

        Not while what it lacks is far away: all else would stand idle until then.
        """
        word, seconds = short
        waited = self._at - since
        return waited >= PATIENT_SECONDS and seconds <= PATIENT_SECONDS and word != Short.RESERVED

    def _lacks(self, name: str, kind: Kind, tokens: int) -> tuple[Short, float] | None:
        rule, shared = self._get(name)
        draft = self._draft(name)
        owed = kind == BATCH and shared.owes(rule, tokens, draft)
        return shared.lacks(rule, kind, tokens, draft, owed=owed)

    def _draft(self, name: str) -> Draft:
        return self._drafts.setdefault(name, Draft())

    def _set_aside(self, line: Line, tokens: int) -> None:
        for name in line.uses:
            draft = self._draft(name)
            draft.places += 1
            draft.batch += line.kind == BATCH
            draft.used[0] += 1.0
            draft.used[1] += tokens

    def waits(self, wants: Iterable[Want]) -> dict[str, Wait]:
        """Return what each of the worker's others lacks; it is what the first of its line does."""
        return {want.lease: self._wait(want) for want in wants if want.lease not in self._granted}

    def _wait(self, want: Want) -> Wait:
        uses = tuple(want.uses)
        line = next(one for one in self._lines if one.kind == want.kind and one.uses == uses)
        soon = 0.0 if len(self._granted) >= MOST_GRANTED else RENEW_SECONDS
        name, short, seconds = line.lacks or (uses[0], Short.IN_LINE, soon)
        waiting = [one.lease for one in line.waiting if one.lease not in self._granted]
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
