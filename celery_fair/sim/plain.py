"""A plain Celery worker in virtual time: a prefetch window, and tasks in the order they came."""

from __future__ import annotations

from dataclasses import dataclass

from celery_fair.sim.lanes import Host, Lane
from celery_fair.sim.queues import Queue
from celery_fair.sim.task import Task

UNBOUNDED = 10_000
"""Messages: as good as no limit, where each of them is asked for."""


@dataclass(frozen=True, slots=True)
class Window:
    """How many messages a worker may have: Celery's own settings of the same names.

    With early acks a message leaves the window as its task starts, so that ``multiplier`` times the
    slots wait in the worker beside those that run; with late acks running ones are among them.
    """

    multiplier: int = 4
    late: bool = False

    def room(self, slots: int, held: int, running: int) -> int:
        """How many more it may ask for."""
        if not self.multiplier:
            return UNBOUNDED
        return self.multiplier * slots - held - (running if self.late else 0)


class PlainWorker:
    """Takes from its queues in order, or in turn, and starts what it holds as slots free."""

    def __init__(
        self, index: int, slots: int, host: Host, queues: list[Queue], window: Window, rotates: bool
    ) -> None:
        self.index = index
        self.slots = slots
        self.alive = True
        self._host = host
        self._queues = queues
        self._window = window
        self._rotates = rotates
        self.running: dict[Task, None] = {}
        self._boot()

    def _boot(self) -> None:
        self.lane = Lane(self, list(self._queues), rotates=self._rotates)

    def advance(self, _: object = None) -> None:
        """Start what may start, then ask for more."""
        if not self.alive:
            return
        lane, running, host = self.lane, self.running, self._host
        held = lane.held
        while held and len(running) < self.slots:
            task = held.popleft()
            running[task] = None
            host.run_task(self, task)
        room = self._window.room(self.slots, len(held), len(running))
        if not host.pushes and room > 1:
            room = 1
        while lane.under_way < room:
            host.fetch(lane)
        if room <= 0 and lane.parked:
            host.withdraw(lane)

    def receive(self, lane: Lane, task: Task) -> None:
        """A fetch was answered."""
        task.received = self._host.now
        lane.held.append(task)
        self.advance()

    def finish(self, task: Task) -> None:
        """A task's slot is free again."""
        del self.running[task]
        self.advance()

    def die(self) -> list[Task]:
        """Stop at once; all goes back to the broker, as with late acks."""
        self.alive = False
        lost = self.unfinished()
        self._host.withdraw(self.lane)
        self.lane.closed = True
        self.running.clear()
        return sorted(lost, key=lambda task: task.published)

    def unfinished(self) -> list[Task]:
        """What it holds or runs."""
        return [*self.running, *self.lane.held]

    def restart(self) -> None:
        """Begin again."""
        self.alive = True
        self._boot()
        self.advance()

    def mode_changes(self) -> int:
        """It has no gate."""
        return 0
