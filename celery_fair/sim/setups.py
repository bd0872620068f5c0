"""Whom a load is given to: workers with celery-fair, or plain ones in each usual way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, Kind, PolicySettings
from celery_fair.policy.tenant_rules import TenantRules
from celery_fair.sim.lanes import Host, SimWorker
from celery_fair.sim.plain import PlainWorker, Window
from celery_fair.sim.queues import Queue, ShardedQueue
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.worker import Worker

Queues = dict[Kind, Queue]


class Setup(Protocol):
    """A way to serve both kinds."""

    @property
    def name(self) -> str:
        """What it is called."""

    def queues(self, scenario: Scenario) -> Queues:
        """The queue of each kind."""

    def workers(self, scenario: Scenario, host: Host, queues: Queues) -> Sequence[SimWorker]:
        """Make the workers."""


@dataclass(frozen=True, slots=True)
class FairSetup:
    """Workers with celery-fair."""

    settings: PolicySettings = field(default_factory=PolicySettings)
    name: str = "fair"

    def queues(self, scenario: Scenario) -> Queues:
        """One a kind, in shards."""
        if scenario.shards == 1:
            return {kind: Queue() for kind in KINDS}
        return {kind: ShardedQueue(scenario.shards) for kind in KINDS}

    def workers(self, scenario: Scenario, host: Host, queues: Queues) -> list[Worker]:
        """All alike."""
        heeds = scenario.has_tenants and scenario.tenant_turns
        tenants = (scenario.tenants or TenantRules()) if heeds else None
        yields = scenario.yields if scenario.batch.yields_every else None
        return [
            Worker(
                index, scenario.slots, self.settings, host, queues, tenants, yields,
                scenario.waiting_room,
            )
            for index in range(scenario.workers)
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainSetup:
    """Celery alone. ``queues``: one for all, or one a kind.

    ``strict``: interactive tasks come first at the broker (``queue_order_strategy`` on Redis,
    message priorities on both brokers); else two queues are asked in turn. ``batch_part``: so much
    of the slots have a worker of their own for batch, which with ``overlap`` takes interactive
    tasks too; the others, one at least, are for interactive tasks only.
    """

    name: str
    one_queue: bool = False
    strict: bool = False
    window: Window = field(default_factory=lambda: Window(1))
    batch_part: float | None = None
    overlap: bool = False
    without_batch: bool = False
    says: str = ""

    def queues(self, scenario: Scenario) -> Queues:
        """The same for both kinds, or one each."""
        first = Queue()
        return {INTERACTIVE: first, BATCH: first if self.one_queue else Queue()}

    def workers(self, scenario: Scenario, host: Host, queues: Queues) -> list[PlainWorker]:
        """One for each that the scenario has, or two, which share its slots."""
        both = list(dict.fromkeys(queues.values()))
        found: list[PlainWorker] = []

        def add(slots: int, its: list[Queue]) -> None:
            rotates = not self.strict and len(its) > 1
            found.append(PlainWorker(len(found), slots, host, its, self.window, rotates))

        for _ in range(scenario.workers):
            if self.batch_part is None:
                add(scenario.slots, both)
                continue
            slots = min(round(scenario.slots * self.batch_part), scenario.slots - 1)
            add(scenario.slots - slots, [queues[INTERACTIVE]])
            if slots:
                add(slots, both if self.overlap else [queues[BATCH]])
        return found


_LATE = Window(1, late=True)

PLAIN = {
    setup.name: setup
    for setup in (
        PlainSetup("fifo", one_queue=True, window=Window(4), says="one queue, as Celery comes"),
        PlainSetup("two-queues", says="two queues, asked in turn; prefetch 1"),
        PlainSetup("two-queues-late", window=_LATE, says="the same with late acks"),
        PlainSetup("strict", strict=True, says="two queues, interactive first; prefetch 1"),
        PlainSetup("strict-late", strict=True, window=_LATE, says="the same with late acks"),
        PlainSetup("priority", strict=True, says="one queue with message priorities; prefetch 1"),
        PlainSetup("priority-late", strict=True, window=_LATE, says="the same with late acks"),
        PlainSetup("dedicated", batch_part=0.75, says="a quarter of the slots is interactive only"),
        PlainSetup("dedicated-half", batch_part=0.5, says="half of the slots is interactive only"),
        PlainSetup(
            "reserved-slot", strict=True, batch_part=1.0, overlap=True,
            says="one slot for interactive only, the others for both, interactive first",
        ),
        PlainSetup(
            "reserved-slot-late", strict=True, batch_part=1.0, overlap=True, window=_LATE,
            says="the same with late acks",
        ),
        PlainSetup(
            "reserved-slot-in-turn-late", batch_part=1.0, overlap=True, window=_LATE,
            says="the same, queues asked in turn, as on RabbitMQ",
        ),
        PlainSetup("interactive-only", without_batch=True, says="no batch at all: the ideal"),
    )
}  # fmt: skip
"""What a user could choose without celery-fair."""


def without_batch(scenario: Scenario) -> Scenario:
    """The same load, without its batch."""
    trace = scenario.trace
    empty = replace(scenario.batch, arrivals=(), backlog=0)
    kept = replace(scenario, batch=empty)
    if trace is None:
        return kept
    return replace(kept, trace=lambda: (one for one in trace() if one.kind != BATCH))
