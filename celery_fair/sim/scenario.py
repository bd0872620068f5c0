"""What is simulated: workers, arrivals and run times, all drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from celery_fair.policy import BATCH, INTERACTIVE, Kind
from celery_fair.resources.rules import Resource

Draw = Callable[[random.Random], float]


def constant(seconds: float) -> Draw:
    """Always the same time."""
    return lambda source: seconds


def uniform(low: float, high: float) -> Draw:
    """Any time between two."""
    return lambda source: source.uniform(low, high)


def exponential(mean: float) -> Draw:
    """Many short times and some long ones."""
    return lambda source: source.expovariate(1 / mean)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When tasks come: ``size`` at once at each time, at Poisson or fixed gaps, from ``start`` on.

    ``rate`` is times a second; 0 means once, at ``start``. All are of one ``tenant``.
    """

    rate: float
    size: int = 1
    poisson: bool = True
    start: float = 0.0
    until: float = float("inf")
    tenant: str | None = None

    def times(self, source: random.Random) -> Iterator[float]:
        """Yield one time for each task."""
        now = self.start
        if not self.rate:
            yield from [now] * self.size
            return
        now += source.expovariate(self.rate) if self.poisson else 0.5 / self.rate
        while now < self.until:
            yield from [now] * self.size
            now += source.expovariate(self.rate) if self.poisson else 1 / self.rate


@dataclass(frozen=True, slots=True)
class Work:
    """Tasks of one kind. ``backlog`` keeps so many waiting at the broker, without end.

    ``uses``: names of ``Scenario.resources``; each task has all of them, or waits.
    """

    service: Draw
    arrivals: tuple[Arrivals, ...] = ()
    backlog: int = 0
    uses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outage:
    """A worker that dies at ``at`` and is back at ``until``; its messages return to the broker.

    Among ``Scenario.partitions``: it lives, but neither hears nor is heard by the others, since it
    is cut off or, if all are, since the place where they meet is gone.
    """

    worker: int
    at: float
    until: float = float("inf")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A load on a fleet. Times are seconds; what is measured follows ``warmup``.

    ``poll_seconds``: how long a fetch that waits at the broker outlives the credit it was sent for
    (0 on AMQP, up to a second for a Redis BRPOP). ``fleet_delay_seconds``: how old the other
    workers' last words get; ``None`` is no view at all. ``blind``: when the sensor reads nothing.
    ``shards``: queues of each kind. ``engine``: the pressure in the engine behind the tasks, from
    one time to another; there is no probe at other times.
    """

    name: str
    interactive: Work
    batch: Work
    workers: int = 1
    slots: int = 8
    warmup: float = 4.0
    duration: float = 20.0
    grace: float = 5.0
    round_trip_seconds: float = 0.001
    sensor_seconds: float = 0.25
    poll_seconds: float = 0.0
    hold_max_seconds: float = 30.0
    fleet_delay_seconds: float | None = None
    outages: tuple[Outage, ...] = ()
    partitions: tuple[Outage, ...] = ()
    blind: tuple[tuple[float, float], ...] = field(default=())
    shards: int = 1
    resources: tuple[Resource, ...] = ()
    engine: tuple[tuple[float, float, float], ...] = ()

    @property
    def end(self) -> float:
        """When the measured window ends."""
        return self.warmup + self.duration

    def work(self, kind: Kind) -> Work:
        """The work of one kind."""
        return self.interactive if kind == INTERACTIVE else self.batch


def is_blind(scenario: Scenario, now: float) -> bool:
    """Whether the sensor reads nothing at this time."""
    return any(start <= now < end for start, end in scenario.blind)


def pressure(scenario: Scenario, now: float) -> float | None:
    """What a load probe says at this time."""
    return next((found for start, end, found in scenario.engine if start <= now < end), None)


__all__ = [
    "BATCH", "INTERACTIVE", "Arrivals", "Draw", "Outage", "Scenario", "Work",
    "constant", "exponential", "is_blind", "pressure", "uniform",
]  # fmt: skip
