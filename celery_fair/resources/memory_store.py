"""Shared resources in this process's memory: the model of what Redis does, and for tests.

It is also what a worker falls back to on its own while Redis is away. Whoever calls it sees to it
that nobody else does at the same time.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.resources.rules import Resource
from celery_fair.resources.shared import Shared
from celery_fair.resources.store import (
    LEASE_SECONDS,
    MOST_HOLDERS,
    RENEW_SECONDS,
    Ended,
    Holder,
    ResourceView,
    Short,
    Turn,
    Wait,
    Want,
    longest_first,
)
from celery_fair.resources.walk import InLine, Line, Walk

STARTING_SECONDS: Final = RENEW_SECONDS * 2.5
"""Nothing is granted for so long after a store began: those who run must tell of themselves."""

STEP_SECONDS: Final = RENEW_SECONDS
"""The clock of leases goes no further in one look, however far Redis's own has gone."""

BUDGET_STEP_SECONDS: Final = 3600.0
"""The clock of budgets does: after an idle hour they are full."""

SILENT_SECONDS: Final = 1.5 * RENEW_SECONDS
"""Nothing is set aside for a worker of which nobody has heard for so long."""

MOST_OVERDUE: Final = 100
MOST_SILENT: Final = 10
"""How many leases, and workers, end in one look; after a great loss the rest in the next."""

OFFER_SECONDS: Final = 1.0
"""Nor for one that was woken and hasn't come."""


@dataclass(slots=True)
class Lease:
    """What one task holds."""

    want: Want
    worker: str
    until: float
    since: float


@dataclass(slots=True)
class Waiting:
    """One task in line."""

    want: Want
    worker: str
    number: int
    since: float


@dataclass(slots=True)
class Worker:
    """What a worker was last heard to want, and was granted without having said that it knows."""

    seen: float
    woken: float | None = None
    wants: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)


class MemoryStore:
    """A `ResourceStore` for one process; time comes from ``clock``, in seconds, and may jump."""

    def __init__(
        self,
        rules: Mapping[str, Resource],
        *,
        clock: Callable[[], float] = time.monotonic,
        starting_seconds: float = 0.0,
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._seen = round(clock() * 1000)
        self._at = self._spent = 0
        self._starting_until = starting_seconds
        self._numbers = 0
        self._shared: dict[str, Shared] = {}
        self.leases: dict[str, Lease] = {}
        self.waiting: dict[str, Waiting] = {}
        self._workers: dict[str, Worker] = {}

    # -- time ------------------------------------------------------------------------------------

    @property
    def at(self) -> float:
        """The clock by which leases end, in seconds: it never goes back, and never far at once."""
        return self._at / 1000.0

    def _look(self) -> None:
        now = round(self._clock() * 1000)
        passed, self._seen = max(now - self._seen, 0), now
        self._at += min(passed, round(STEP_SECONDS * 1000))
        self._spent += min(passed, round(BUDGET_STEP_SECONDS * 1000))
        overdue = [(one.until, lease) for lease, one in self.leases.items() if one.until <= self.at]
        for _, lease in sorted(overdue)[:MOST_OVERDUE]:
            self._release(lease, began=True)
        seen = sorted((one.seen, name) for name, one in self._workers.items())
        silent = [name for at, name in seen if at + LEASE_SECONDS <= self.at]
        for name in silent[:MOST_SILENT]:
            self.leave(name)

    def _get(self, name: str) -> tuple[Resource, Shared]:
        rule, shared = self._rules.get(name), self._shared.get(name)
        if shared is None:
            shared = self._shared[name] = Shared(self.at, self._spent / 1000.0)
        elif rule is not None and shared.time != (self.at, self._spent / 1000.0):
            shared.advance(rule, self.at, self._spent / 1000.0)
        return rule or Resource(name), shared

    def _all(self, want: Want) -> Iterator[tuple[Resource, Shared]]:
        return (self._get(name) for name in want.uses)

    # -- one worker's turn -----------------------------------------------------------------------

    def turn(
        self,
        worker: str,
        wants: Sequence[Want],
        running: Collection[Want],
        ended: Sequence[Ended],
    ) -> Turn:
        self._look()
        for lease, began in ended:
            self._release(lease, began=began)
        lost = [want.lease for want in running if not self._renew(worker, want)]
        known = self._workers.get(worker) or Worker(self.at)
        self._take_back(worker, known, {want.lease for want in (*wants, *running)})
        known = self._workers[worker] = Worker(self.at)
        again = self._line_up(worker, wants)
        granted, waits = self._walk(worker, wants)
        known.offered = {*again, *granted}
        if not wants:  # it isn't waited for
            del self._workers[worker]
        return Turn([*again, *granted], waits, lost)

    def _renew(self, worker: str, want: Want) -> bool:
        found = self.leases.get(want.lease)
        if found is None:
            self._forget(want.lease)
            self._hold(worker, want)
            return False
        found.worker, found.until = worker, self.at + LEASE_SECONDS
        return True

    def _take_back(self, name: str, worker: Worker, named: set[str]) -> None:
        """Give back what was granted in an answer that was lost, and forget what isn't wanted."""
        for lease in sorted(worker.offered - named):
            found = self.leases.get(lease)
            if found is not None and found.worker == name:
                self._release(lease, began=False)
        for lease in sorted(worker.wants - named):
            self._forget(lease, of=name)

    def _line_up(self, worker: str, wants: Sequence[Want]) -> list[str]:
        again = []
        for want in wants:
            held, waiting = self.leases.get(want.lease), self.waiting.get(want.lease)
            if held is not None:
                held.worker, held.until = worker, self.at + LEASE_SECONDS
                again.append(want.lease)
                continue
            if waiting is None:
                self._numbers += 1
                self.waiting[want.lease] = Waiting(want, worker, self._numbers, self.at)
                for _, shared in self._all(want):
                    shared.waiting[want.kind] += 1
            else:
                waiting.worker = worker
            self._workers[worker].wants.add(want.lease)
        return again

    def _walk(self, worker: str, wants: Sequence[Want]) -> tuple[list[str], dict[str, Wait]]:
        mine = [want for want in wants if want.lease in self.waiting]
        left = self._starting_until - self.at
        if left > 0.0:
            return [], {want.lease: Wait(want.uses[0], Short.STARTING, left) for want in mine}
        known = self._rules.keys() | {name for want in mine for name in want.uses}
        walk = Walk(self._lines(known), self._get, worker, self._is_asleep, self.at)
        granted = []
        for lease in walk.grants():
            want = self.waiting[lease].want
            self._forget(lease)
            self._hold(worker, want)
            for rule, shared in self._all(want):
                shared.spend(rule, want.kind, want.tokens)
            granted.append(lease)
        for other in walk.to_wake:
            if self._workers[other].woken is None:
                self._workers[other].woken = self.at
        return granted, walk.waits(mine)

    def _lines(self, known: set[str]) -> list[Line]:
        """Those who want the same, in a line, by when they asked first.

        What a worker with newer settings wants, and this one has never heard of, is left to it.
        """
        lines: dict[tuple[Kind, tuple[str, ...]], Line] = {}
        for waiting in sorted(self.waiting.values(), key=lambda one: one.number):
            want = waiting.want
            if known.issuperset(want.uses):
                key = want.kind, tuple(want.uses)
                line = lines.setdefault(key, Line(*key))
                line.waiting.append(
                    InLine(waiting.number, waiting.worker, want.lease, want.tokens, waiting.since)
                )
        return [lines[key] for key in sorted(lines)]

    def _is_asleep(self, worker: str) -> bool:
        known = self._workers.get(worker)
        if known is None or known.seen + SILENT_SECONDS <= self.at:
            return True
        return known.woken is not None and known.woken + OFFER_SECONDS <= self.at

    # -- single steps ----------------------------------------------------------------------------

    def _hold(self, worker: str, want: Want) -> None:
        self.leases[want.lease] = Lease(want, worker, self.at + LEASE_SECONDS, self.at)
        for _, shared in self._all(want):
            shared.hold(want.kind)

    def _release(self, lease: str, *, began: bool) -> None:
        found = self.leases.pop(lease, None)
        if found is None:
            return
        want = found.want
        for rule, shared in self._all(want):
            shared.release(want.kind, self.at - found.since if began else None)
            if not began:
                shared.unspend(rule, want.kind, want.tokens)

    def _forget(self, lease: str, of: str | None = None) -> None:
        found = self.waiting.get(lease)
        if found is None or (of is not None and found.worker != of):
            return
        del self.waiting[lease]
        for _, shared in self._all(found.want):
            shared.waiting[found.want.kind] -= 1

    # -- beside the turns ------------------------------------------------------------------------

    def woken(self, worker: str, seconds: float) -> bool:
        """Whether something was set aside for the worker; it doesn't wait in memory."""
        known = self._workers.get(worker)
        return known is not None and known.woken is not None

    def leave(self, worker: str) -> None:
        known = self._workers.pop(worker, None)
        if known is not None:
            for lease in sorted(known.wants):
                self._forget(lease, of=worker)

    def charge(self, resource: str, tokens: int = 0, requests: int = 0) -> None:
        self._look()
        rule, shared = self._get(resource)
        for budget, used in enumerate((requests, tokens)):
            if rule.budgets[budget] is not None:
                shared.put(rule, budget, -float(used))

    def slow_down(self, resource: str, retry_after_seconds: float | None) -> None:
        self._look()
        rule, shared = self._get(resource)
        shared.slow_down(rule, retry_after_seconds)

    def views(self) -> Sequence[ResourceView]:
        names = sorted(self._rules)
        self._only_look(names)
        return [self._view(self._rules[name], self._shown(name)) for name in names]

    def holders(self) -> Sequence[Holder]:
        self._only_look(())
        first = sorted(self.leases.items(), key=lambda item: (item[1].until, item[0]))
        return longest_first(
            Holder(
                lease,
                one.worker,
                one.want.kind,
                tuple(one.want.uses),
                round(self.at - one.since, 3),
            )
            for lease, one in first[:MOST_HOLDERS]
        )

    def _only_look(self, names: Collection[str]) -> None:
        """End what is overdue, and begin what is new, by no rules.

        Those of who looks may be others than the workers', whose budgets would be cut to them.
        """
        rules, self._rules = self._rules, {}
        self._look()
        for name in names:
            self._get(name)
        self._rules = rules

    def _shown(self, name: str) -> Shared:
        """What there is of a resource now, by the rules of who looks; it is kept as it was."""
        shared = copy.deepcopy(self._shared[name])
        now = self.at, self._spent / 1000.0
        if shared.time != now:
            shared.advance(self._rules[name], *now)
        return shared

    def _view(self, rule: Resource, shared: Shared) -> ResourceView:
        left = [
            None if per_second is None else shared.left[budget]
            for budget, per_second in enumerate(rule.budgets)
        ]
        return ResourceView(
            rule.name,
            rule.max_running,
            {kind: shared.running[kind] for kind in KINDS},
            {kind: shared.waiting[kind] for kind in KINDS},
            left[0],
            left[1],
            shared.pace.rate,
            max(shared.pace.shut_until - shared.spent_at, 0.0),
        )
