"""Solo: the task that runs looks at the broker itself, since the loop can't while it runs."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.policy.yields import Candidate, choose
from celery_fair.worker import internals
from celery_fair.worker.links import TIMEOUT_SECONDS, Answer, Link
from celery_fair.worker.slots import Slot

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.05
"""How often it looks at the most; nobody else looks meanwhile."""
AFTER_FAILURE_SECONDS: Final = 5.0


class InlineLink(Link):
    """A connection of its own: the sensor's may have a question open that only the loop reads."""

    def _bound(self, options: dict[str, Any]) -> None:
        self.connection.transport_options = options
        self.connection.connect_timeout = TIMEOUT_SECONDS
        self.connection.heartbeat = 0

    def ask(self, queues: Iterable[str], member: tuple[str, str] | None = None) -> Answer:
        ready = {queue: internals.ready_now(self.channel, queue) for queue in queues}
        return Answer(ready, {})


class InlineAsking:
    """Decides for the one task of a solo worker; called by that task, each time it asks."""

    def __init__(self, scheduler: Scheduler, draw: Callable[[], float] = random.random) -> None:
        self._scheduler = scheduler
        self._draw = draw
        self._link: InlineLink | None = None
        self._next_at = 0.0

    def __call__(self) -> bool:
        """Whether the task should yield; looks at the broker now and then, for half a millisecond.

        Of several such workers each looks for itself, and sees the same tasks; as many yield as
        wait, about.
        """
        now = monotonic()
        if now < self._next_at:
            return False
        self._next_at = now + LOOK_SECONDS
        scheduler, slots = self._scheduler, list(self._scheduler.dispatcher.slots)
        if not scheduler.switching.enforcing:
            return False
        if not scheduler.pool.is_running():
            return True  # a signal has come, and the loop will know of it when this task has ended
        if not slots or slots[0].kind != BATCH:
            return False
        one = Candidate(slots[0], now - slots[0].started_at, self._setup_seconds(slots[0]))
        if not scheduler.asking.rules().may_be_asked(one):
            return False
        waiting = len(scheduler.lanes[INTERACTIVE].held) + self._ready(now)
        demand = scheduler.policy.demand(waiting, now)
        if not choose(demand, [one], scheduler.asking.rules()).ask:
            return False
        return self._draw() * scheduler.measuring.fleet_workers < waiting

    def _setup_seconds(self, slot: Slot) -> float:
        cells = self._scheduler.asking.board.in_use(1)
        return max(cells[0].entered_at - slot.started_at, 0.0) if cells else 0.0

    def _ready(self, now: float) -> int:
        try:
            if self._link is None:
                self._link = InlineLink(self._scheduler.c.app)
            return sum(self._link.ask(self._scheduler.backlog.queues(INTERACTIVE)).ready.values())
        except Exception as error:
            logger.debug("celery-fair: a running task could not look at the broker: %r", error)
            self._next_at = now + AFTER_FAILURE_SECONDS
            self.close()
            return 0

    def close(self) -> None:
        """Let go of the connection."""
        link, self._link = self._link, None
        if link is not None:
            try:
                link.close()
            except Exception as error:
                logger.debug("closing the connection of a running task: %r", error)
