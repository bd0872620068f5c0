"""A worker's slots in virtual time: tenants, their tasks, and what they have had."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import count

from celery_fair.policy.tenants import Tenant, Turn, Turns

TICK_SECONDS = 0.1


class Shop:
    """One kind's slots; tasks are told by how long they run, first come first served by tenant."""

    def __init__(self, slots: int, turns: Turns | None = None) -> None:
        self.slots = slots
        self.turns = turns or Turns()
        self.now = 0.0
        self.held: dict[Tenant, deque[float]] = {}
        self.running: list[tuple[float, int, Turn, float]] = []
        self.order: list[Tenant] = []
        self._numbers = count()
        self._ended: Counter[Tenant] = Counter()

    def add(self, tenant: Tenant, *run_seconds: float) -> None:
        self.held.setdefault(tenant, deque()).extend(run_seconds)
        self.turns.join(tenant)

    def dispatch(self, refill: Callable[[Tenant], float] | None = None) -> None:
        """Start what has room; with ``refill`` a tenant that starts a task has another at once."""
        while len(self.running) < self.slots and self.turns.waiting:
            tenant = self.turns.next()
            line = self.held[tenant]
            seconds = line.popleft()
            if refill is not None:
                line.append(refill(tenant))
            if not line:
                self.turns.leave(tenant)
            turn = self.turns.start(tenant, self.now)
            heapq.heappush(self.running, (self.now + seconds, next(self._numbers), turn, self.now))
            self.order.append(tenant)

    def step(self, refill: Callable[[Tenant], float] | None = None) -> None:
        """Go on to the next end, with ticks on the way."""
        self.dispatch(refill)
        end, _, turn, began = self.running[0]
        tick = self.now - self.now % TICK_SECONDS + TICK_SECONDS
        while tick < end:
            self.now, tick = tick, tick + TICK_SECONDS
            self.turns.tick(self.now, nobody_waits=not self.turns.waiting)
        heapq.heappop(self.running)
        self.now = end
        self._ended[turn.account.tenant] += end - began
        self.turns.end(turn, end - began)

    def served(self, tenant: Tenant) -> float:
        """Slot-seconds that a tenant has had until now."""
        runs = (self.now - began for _, _, turn, began in self.running
                if turn.account.tenant == tenant)  # fmt: skip
        return self._ended[tenant] + sum(runs)

    def run(self, tenants: Iterable[Tenant] = ()) -> None:
        """Until nothing of these is left, or nothing at all."""
        wanted = set(tenants)
        while self.turns.waiting or self.running:
            if wanted and not any(self._has(tenant) for tenant in wanted):
                return
            self.step()

    def _has(self, tenant: Tenant) -> bool:
        running = any(turn.account.tenant == tenant for _, _, turn, _ in self.running)
        return bool(self.held.get(tenant)) or running
