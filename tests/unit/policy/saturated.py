"""A worker on which both kinds, or batch alone, always wait, in virtual time: for guarantees."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

from celery_fair.policy import BATCH, INTERACTIVE, Load, Policy

TICK_SECONDS = 0.25


@dataclass
class Saturated:
    """Runs a policy with what waits held at all times; run times are drawn between two bounds."""

    policy: Policy
    interactive_seconds: tuple[float, float]
    batch_seconds: tuple[float, float]
    seed: int = 1
    now: float = 0.0
    batch_slot_seconds: float = 0.0
    batch_starts: list[float] = field(default_factory=list)
    interactive_starts: int = 0
    longest_run: float = 0.0
    longest_without_free_slot: float = 0.0
    batch_alone: bool = False
    engine_pressure: float | None = None

    def run(self, until: float) -> None:
        source = random.Random(self.seed)
        ends: list[tuple[float, int, str, float]] = []
        number, freed_at, next_tick = 0, 0.0, 0.0
        held = 0 if self.batch_alone else 9
        while True:
            self._tick(ends) if self.now >= next_tick else None
            next_tick = (
                max(next_tick, self.now) if self.now < next_tick else self.now + TICK_SECONDS
            )
            while (kind := self.policy.pick(held, 9, self.now, self.batch_alone)) is not None:
                low, high = self.batch_seconds if kind == BATCH else self.interactive_seconds
                seconds = source.uniform(low, high)
                self.policy.start(kind, self.now, waited_seconds=1.0)
                self.interactive_starts += kind == INTERACTIVE
                if kind == BATCH:
                    self.batch_starts.append(self.now)
                    self.longest_run = max(self.longest_run, seconds)
                    self.batch_slot_seconds += min(seconds, until - self.now)
                number += 1
                heapq.heappush(ends, (self.now + seconds, number, kind, seconds))
            next_end = ends[0][0] if ends else math.inf
            if min(next_end, next_tick) >= until:
                return
            if next_tick < next_end:
                self.now = next_tick
                continue
            self.now, _, kind, seconds = heapq.heappop(ends)
            self.longest_without_free_slot = max(
                self.longest_without_free_slot, self.now - freed_at
            )
            freed_at = self.now
            self.policy.finish(kind, self.now, seconds)

    def _tick(self, ends: list[tuple[float, int, str, float]]) -> None:
        oldest = {INTERACTIVE: 0.0, BATCH: 0.0}
        for end, _, kind, seconds in ends:
            oldest[kind] = max(oldest[kind], self.now - (end - seconds))
        waits = not self.batch_alone
        load = Load(
            500 if waits else 0,
            500,
            interactive_oldest_wait_seconds=1.0 if waits else 0.0,
            interactive_lane_empty=not waits,
            engine_pressure=self.engine_pressure,
            interactive_oldest_run_seconds=oldest[INTERACTIVE],
            batch_oldest_run_seconds=oldest[BATCH],
        )
        self.policy.observe(load, self.now)
