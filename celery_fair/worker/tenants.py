"""Messages held for several tenants: each has a line of its own, and they take turns."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from celery_fair.policy.fleet import Stretch
from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.policy.load import Load
from celery_fair.policy.tenant_rules import Tenant, TenantRules
from celery_fair.policy.tenants import ALONE, Turn, Turns
from celery_fair.settings import FairSettings

TOP: Final = 3
NAME_LENGTH: Final = 64
"""So many tenants are named in a reply, in so many characters."""

if TYPE_CHECKING:
    from celery_fair.worker.lanes import Held, Lane


def shown(tenant: Tenant) -> str | None:
    """A tenant as it is shown: as it travels, so hashed if that was asked for, and not for long."""
    return None if tenant is None else tenant[:NAME_LENGTH]


def rules_of(settings: FairSettings) -> TenantRules:
    """What is set for tenants, by their names as they travel."""
    weights = {
        settings.as_travels(name): weight for name, weight in settings.tenant_weights.items()
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
        tenant = held.tenant
        line = self._lines.get(tenant)
        if line is None:
            self._lines[tenant] = [held]
            self._turns.join(tenant)
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

    def before(self, held: Held) -> int:
        """About how many start before it: of each tenant as many as its own, if it has them."""
        own, time_of = held.tenant, self._turns.time_of
        before = sum(other < held for other in self._lines[own])
        time = time_of(own)
        others = [
            min(len(line), before + (time_of(tenant) < time))
            for tenant, line in self._lines.items()
            if tenant != own
        ]
        return before + sum(others)

    def report(self, now: float) -> dict[str, Any]:
        """How many tenants wait, for how long the first task of one has, and who has the most."""
        oldest = min((h.received_at for line in self._lines.values() for h in line), default=now)
        longest = heapq.nlargest(TOP, self._lines.items(), key=lambda item: len(item[1]))
        return {
            "waiting": len(self._lines),
            "longest_wait_seconds": round(now - oldest, 3),
            "top": [{"tenant": shown(name), "held": len(line)} for name, line in longest],
        }


class PlaceTurns:
    """Whose turn it is among those of a kind who wait for places, beside their turns in the slots.

    What uses one resource has turns of its own, and so has what uses another, or two together: who
    waits for the one would save up for the other, and who has had much of the one would have to
    wait for the other until those had as much who wait for the first in vain.
    """

    def __init__(self) -> None:
        self._rules = TenantRules()
        self._turns: dict[Sequence[str], Turns] = {}

    def of(self, uses: Sequence[str]) -> Turns:
        """Those of what uses all of that together."""
        turns = self._turns.get(uses)
        if turns is None:
            turns = self._turns[uses] = Turns(self._rules)
        return turns

    def tick(self, rules: TenantRules, now: float, nobody_waits: bool) -> None:
        """Charge for what runs on, by the rules of now; caps are of slots."""
        self._rules = rules
        for turns in self._turns.values():
            turns.go_by(rules, ALONE)
            turns.tick(now, nobody_waits=nobody_waits)


class Tenants:
    """The turns of both kinds, for as long as the worker lives: lanes come and go."""

    def __init__(self) -> None:
        self.turns: Mapping[Kind, Turns] = {kind: Turns() for kind in KINDS}
        self.places: Mapping[Kind, PlaceTurns] = {kind: PlaceTurns() for kind in KINDS}
        self.are_on = True
        """False: tenants are all alike, as if none were named."""
        self.on_start: Callable[[Kind, Turn], None] | None = None
        self.on_end: Callable[[Kind, Turn, float], None] | None = None
        """Told of each, where there are shards."""
        self.rules = TenantRules()

    def go_by(self, settings: FairSettings) -> None:
        """Go by these settings from the next message, and the next start, on."""
        self.are_on = settings.tenant_turns
        self.rules = rules_of(settings)

    def connect(self, lanes: Mapping[Kind, Lane]) -> None:
        """Go on with the lanes of a new connection."""
        for kind, lane in lanes.items():
            lane.turns, lane.places = self.turns[kind], self.places[kind]
            if lane.turns.accounts:
                lane.take_turns()

    def tick(self, load: Load, stretch_of: Callable[[Kind], Stretch], now: float) -> None:
        """Charge for what runs on; while nothing waits, nobody pays later.

        ``stretch_of`` a kind has the slots of the fleet that it may have.
        """
        for kind, turns in self.turns.items():
            turns.go_by(self.rules, stretch_of(kind))
            if turns.accounts:
                backlog = load.batch_backlog if kind == BATCH else load.interactive_backlog
                turns.tick(now, nobody_waits=backlog == 0)
                self.places[kind].tick(self.rules, now, nobody_waits=backlog == 0)
