"""A worker's connection to queues: what it holds, and what it has asked the broker for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from celery_fair.policy.tenant_rules import TenantRules
from celery_fair.policy.tenants import ALONE, Turns
from celery_fair.sim.held import Held, TenantsHeld
from celery_fair.sim.queues import Queue
from celery_fair.sim.task import Task

if TYPE_CHECKING:
    from celery_fair.resources.memory_store import MemoryStore


Act = Callable[[Any], None]


class Lane:
    """Messages of some queues inside one worker, and its fetches, if any are under way.

    ``credit``: how many it may hold. ``under_way``: fetches sent and not answered, of which
    ``parked`` wait at the broker, where there is nothing. ``aside``: how many messages wait in the
    worker for something that they use. A worker that comes back has new lanes: the broker brings
    nothing to one that is ``closed``.
    """

    __slots__ = (
        "aside", "asked_at", "closed", "credit", "doubtful", "fetched_at", "held", "kind", "parked",
        "poll_ends_at", "queues", "rotates", "turns", "under_way", "worker",
    )  # fmt: skip

    def __init__(
        self,
        worker: SimWorker,
        queues: list[Queue],
        kind: str = "",
        *,
        tenants: TenantRules | None = None,
        rotates: bool = False,
    ) -> None:
        self.worker = worker
        self.queues = queues
        self.kind = kind
        self.rotates = rotates
        """Whether a queue that was taken from is asked last from then on."""
        self.turns: Turns | None = None
        self.held: Held = deque()
        if tenants is not None:
            self.turns = Turns(tenants)
            self.turns.go_by(tenants, ALONE)
            self.held = TenantsHeld(self.turns)
        self.aside = self.credit = self.under_way = self.parked = 0
        self.asked_at = 0.0
        """Since when there has been room, and so a fetch under way."""
        self.fetched_at = self.poll_ends_at = 0.0
        self.closed = False
        self.doubtful = False
        """Whether messages were ready for it, when they were last counted."""

    @property
    def first(self) -> Task | None:
        """Of those that it holds the one that was received first."""
        return min(self.held, key=lambda task: task.received, default=None)

    def overdue(self, received_by: float) -> list[Task]:
        """Those that it holds since then or longer."""
        return [task for task in self.held if task.received <= received_by]


class SimWorker(Protocol):
    """What the simulation asks of a worker, of whatever make."""

    index: int
    alive: bool
    slots: int

    def advance(self, _: object = None) -> None:
        """Start what may start, then ask for more. Called after every event."""

    def receive(self, lane: Lane, task: Task) -> None:
        """A fetch was answered."""

    def finish(self, task: Task) -> None:
        """A task's slot is free again."""

    def die(self) -> list[Task]:
        """Stop at once; return the messages that go back to the broker, oldest first."""

    def restart(self) -> None:
        """Begin again with nothing learnt."""

    def unfinished(self) -> list[Task]:
        """What it holds or runs."""

    def mode_changes(self) -> int:
        """How often its gate has shut or opened."""


class Host(Protocol):
    """What a worker needs of the simulation around it."""

    now: float
    round_trip_seconds: float
    hold_max_seconds: float
    pushes: bool
    store: MemoryStore | None

    def at(self, time: float, act: Act, what: object = None) -> None:
        """Call ``act`` with ``what`` at this time."""

    def fetch(self, lane: Lane) -> None:
        """Send a fetch to the broker."""

    def withdraw(self, lane: Lane) -> None:
        """Take back fetches that wait at the broker, for lack of credit."""

    def run_task(self, worker: SimWorker, task: Task) -> None:
        """Run a task in a slot: `SimWorker.finish` is called when it ends."""

    def stop_task(self, task: Task) -> None:
        """It has yielded: its message goes to the front of its queue."""

    def give_back(self, tasks: list[Task]) -> None:
        """Put messages back at the head of their queue, oldest first."""

    def backlog(self, kind: str) -> int | None:
        """What is ready at the broker, ``None`` if it cannot be read."""

    def wake_others(self, worker: SimWorker) -> None:
        """Tell other workers that something was set aside for them."""

    def engine_pressure(self) -> float | None:
        """What a load probe says now."""
