"""What waits for the slots of one worker, as far as it can be known without asking anybody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from celery_fair.policy import Load
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.worker import internals

if TYPE_CHECKING:
    from celery_fair.engine.probing import Probing
    from celery_fair.worker.dispatcher import Dispatcher
    from celery_fair.worker.measuring import Measuring
    from celery_fair.worker.pulling import Pulling


class Backlog:
    """Puts together what lanes hold, what was counted last at the broker, and what is empty.

    ``pulling`` is how the present connection pulls; until there is one nothing waits.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        measuring: Measuring,
        engine: Probing | None,
        kind_of_queue: Callable[[str], Kind],
    ) -> None:
        self._dispatcher = dispatcher
        self._measuring = measuring
        self._engine = engine
        self._kind_of_queue = kind_of_queue
        self.pulling: Pulling | None = None

    def load(self, now: float) -> Load:
        """What waits and runs, as far as it can be known."""
        oldest = self._dispatcher.slots.oldest_started_at
        received = self._dispatcher.lanes[INTERACTIVE].oldest_received_at()
        ready_at = self._dispatcher.lanes[BATCH].oldest_ready_at()
        run = {kind: now - (oldest(kind) or now) for kind in KINDS}
        engine = None if self._engine is None else self._engine.load(now)
        return Load(
            interactive_backlog=self._wanted(INTERACTIVE, now),
            batch_backlog=self._wanted(BATCH, now),
            interactive_oldest_wait_seconds=now - received if received else 0.0,
            batch_oldest_wait_seconds=max(time.time() - ready_at, 0.0) if ready_at else 0.0,
            interactive_oldest_run_seconds=run[INTERACTIVE],
            batch_oldest_run_seconds=run[BATCH],
            interactive_lane_empty=self.is_empty(INTERACTIVE, now),
            batch_lane_empty=self.is_empty(BATCH, now),
            interactive_limited=self._dispatcher.lanes[INTERACTIVE].limited,
            engine_pressure=None if engine is None else engine.pressure,
        )

    def _wanted(self, kind: Kind, now: float) -> int | None:
        """What waits for a slot, as far as is known: nothing behind a room that is full."""
        lane = self._dispatcher.lanes[kind]
        return lane.waiting if lane.is_blocked else self.of(kind, now)

    def of(self, kind: Kind, now: float) -> int | None:
        """What waits for a slot: ready at the broker and held here; ``None`` if unknown."""
        lane, queues = self._dispatcher.lanes[kind], self.queues(kind)
        if not queues or self.is_empty(kind, now):
            return lane.waiting
        ready = self._measuring.count(queues, now)
        return None if ready is None else ready + lane.waiting

    def queues(self, kind: Kind) -> list[str]:
        """The names of the queues that this lane consumes now."""
        if self.pulling is None:
            return []
        names = internals.active_queues(self.pulling.parts[kind])
        return [name for name in names if self._kind_of_queue(name) == kind]

    def queue_names(self, kind: Kind) -> list[str]:
        """The names of the queues that belong to this lane, consumed already or about to be."""
        if self.pulling is None:
            return []
        names = [queue.name for queue in self.pulling.parts[kind].queues]
        return [name for name in names if self._kind_of_queue(name) == kind]

    def is_empty(self, kind: Kind, now: float) -> bool:
        """Whether the broker has nothing: the lane says so, and no later reading contradicts it."""
        lane, sensor = self._dispatcher.lanes[kind], self._measuring.sensor
        if not lane.is_empty(now, self._dispatcher.windows[kind].round_trip_seconds):
            return False
        return sensor.read_at < lane.asked_at or not self._measuring.count(self.queues(kind), now)
