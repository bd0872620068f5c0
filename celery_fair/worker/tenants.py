"""Messages held for several tenants: each has a line of its own, and they take turns."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from celery_fair.policy.fleet import Segment
from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.policy.load import Load
from celery_fair.policy.tenant_rules import Tenant, TenantRules
from celery_fair.policy.tenants import Turn, Turns
from celery_fair.settings import FairSettings
from celery_fair.task import hidden

ANYBODY: Final = "*"

if TYPE_CHECKING:
    from celery_fair.worker.lanes import Held, Lane


def rules_of(settings: FairSettings) -> TenantRules:
    """What is set for tenants, by their names as they travel."""
    key = settings.tenant_hash_key
    weights = {
        name if name == ANYBODY else hidden(name, key) or name: weight
        for name, weight in settings.tenant_weights.items()
    }
    return TenantRules(weights, settings.tenant_max_running)


class HeldByTenant:
    """What a lane holds, by tenant; within each the one that was published first is the first."""

    def __init__(self, turns: Turns, held: Iterable[Held] = ()) -> None:
        self._turns = turns
        self._lines: dict[Tenant, list[Held]] = {}
        self._size = 0
        for one in held:
            self.push(one)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Held]:
        return (held for line in self._lines.values() for held in line)

    def push(self, held: Held) -> None:
        """Hold it behind what its tenant published before."""
        self._size += 1
        line = self._lines.get(held.tenant)
        if line is None:
            self._lines[held.tenant] = [held]
            self._turns.join(held.tenant)
        else:
            heapq.heappush(line, held)

    def pop(self) -> Held:
        """Take the first of the tenant whose turn it is."""
        self._size -= 1
        tenant = self._turns.next()
        line = self._lines[tenant]
        if len(line) > 1:
            return heapq.heappop(line)
        del self._lines[tenant]
        self._turns.leave(tenant)
        return line[0]

    def replace(self, every: Iterable[Held]) -> None:
        """Hold these instead; who had something and still has keeps its turn."""
        lines: dict[Tenant, list[Held]] = {}
        for held in sorted(every):  # a sorted list is a heap
            lines.setdefault(held.tenant, []).append(held)
        for tenant in self._lines:
            if tenant not in lines:
                self._turns.leave(tenant)
        for tenant in lines:
            if tenant not in self._lines:
                self._turns.join(tenant)
        self._lines, self._size = lines, sum(map(len, lines.values()))

    def clear(self) -> None:
        self.replace(())


class Tenants:
    """The turns of both kinds, for as long as the worker lives: lanes come and go."""

    def __init__(self) -> None:
        self.turns: Mapping[Kind, Turns] = {kind: Turns() for kind in KINDS}
        self.are_on = True
        """False: tenants are all alike, as if none were named."""
        self._rules = TenantRules()

    def go_by(self, settings: FairSettings) -> None:
        """Go by these settings from the next message, and the next start, on."""
        self.are_on = settings.tenant_turns
        self._rules = rules_of(settings)

    def connect(self, lanes: Mapping[Kind, Lane]) -> None:
        """Go on with the lanes of a new connection."""
        for kind, lane in lanes.items():
            lane.turns = self.turns[kind]
            if lane.turns.accounts:
                lane.take_turns()

    def end(self, kind: Kind, turn: Turn, run_seconds: float) -> None:
        """A task that was charged for has ended."""
        self.turns[kind].end(turn, run_seconds)

    def tick(self, load: Load, segment: Segment, now: float) -> None:
        """Charge for what runs on; while nothing waits, nobody pays later.

        ``segment`` is this worker's place among the slots of its fleet.
        """
        for kind, turns in self.turns.items():
            turns.go_by(self._rules, segment)
            if turns.accounts:
                backlog = load.batch_backlog if kind == BATCH else load.interactive_backlog
                turns.tick(now, nobody_waits=backlog == 0)
