"""What is simulated: workers, arrivals and run times, all drawn from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from celery_fair.policy import BATCH, INTERACTIVE, Kind
from celery_fair.policy.tenant_rules import TenantRules
from celery_fair.policy.yields import YieldRules
from celery_fair.resources.rules import Resource
from celery_fair.sim.draws import constant, empirical, exponential, lognormal, uniform
from celery_fair.sim.task import Draw
from celery_fair.sim.trace import Arrival


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
        """Yield each time at which ``size`` tasks come."""
        now, rate, until = self.start, self.rate, self.until
        if not rate:
            yield now
        elif self.poisson:
            uniform, log = source.random, math.log
            now -= log(1.0 - uniform()) / rate
            while now < until:
                yield now
                now -= log(1.0 - uniform()) / rate
        else:
            now += 0.5 / rate
            while now < until:
                yield now
                now += 1 / rate


@dataclass(frozen=True, slots=True)
class Work:
    """Tasks of one kind. ``backlog`` keeps so many waiting at the broker, without end.

    ``uses``: names of ``Scenario.resources``; each task has all of them, or waits.
    ``in_step``: whether the first of an endless backlog begin together; else they are part done.
    ``yields_every``: seconds of its run after which a task can give its slot back; 0 is never.
    """

    service: Draw
    arrivals: tuple[Arrivals, ...] = ()
    backlog: int = 0
    uses: tuple[str, ...] = ()
    yields_every: float = 0.0
    in_step: bool = False


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
    ``pushes``: whether the broker fills a window by itself, as RabbitMQ does; else a worker asks
    for one message at a time, as on Redis. ``start_seconds``: from the slot to the first line.
    ``shards``: queues of each kind. ``engine``: the pressure in the engine behind the tasks, from
    one time to another; there is no probe at other times. ``trace``: gives the arrivals that were
    recorded, besides those of the two kinds of work; if any of them has a tenant, say so by
    ``tenants``. ``tenant_turns``: whether workers heed them. ``waiting_room``: so many messages of
    a kind wait in a worker for what they use.
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
    pushes: bool = False
    start_seconds: float = 0.0
    tenants: TenantRules | None = None
    tenant_turns: bool = True
    waiting_room: int = 256
    yields: YieldRules = field(default_factory=YieldRules)
    trace: Callable[[], Iterable[Arrival]] | None = None

    @property
    def end(self) -> float:
        """When the measured window ends."""
        return self.warmup + self.duration

    @property
    def has_tenants(self) -> bool:
        """Whether tenants take turns: there are rules for them, or names of them."""
        parts = (*self.interactive.arrivals, *self.batch.arrivals)
        return self.tenants is not None or any(part.tenant is not None for part in parts)

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
    "constant", "empirical", "exponential", "is_blind", "lognormal", "pressure", "uniform",
]  # fmt: skip
