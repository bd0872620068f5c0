"""Has one worker follow its document of orders."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from celery_fair.errors import SettingsError
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.settings import FairSettings
from celery_fair.steering import (
    DRAIN,
    Order,
    Orders,
    Pause,
    pause_of,
    pause_span,
    setting_of,
)
from celery_fair.steering.live import LIVE_SETTINGS
from celery_fair.worker import internals
from celery_fair.worker.steering import applying
from celery_fair.worker.steering.changes import (
    DRAINING,
    IN_SERVICE,
    PAUSED,
    RUNNING,
    WORKER,
    Change,
    of_pause,
)
from celery_fair.worker.steering.keeping import Keeping
from celery_fair.worker.steering.queues import QueuePauses
from celery_fair.worker.steering.settings import LiveSettings, value_of
from celery_fair.worker.steering.spreading import Spreading
from celery_fair.worker.steering.telling import Telling

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

logger = logging.getLogger(__name__)

ENDED: Final = 20
"""Pauses that are over and remembered, beside the last one of each kind and queue."""
RECENT: Final = 10
"""Changes that are told of in the facts."""


class Steering:
    """The orders that this worker knows, and what it does by them.

    ``receive`` takes orders in whatever way they came, and ``reapply`` does anew what is ordered:
    call it when the worker's dispatcher, lanes or mode have become others. In observe mode Celery's
    order is left alone, so that pauses and drains wait for the worker to enforce.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.node: str = scheduler.c.hostname
        self.orders = Orders()
        self.live = LiveSettings(scheduler.fair.settings, self._check)
        self.queues = QueuePauses(scheduler.c)
        self.recent: deque[Change] = deque(maxlen=RECENT)
        self.pauses: Mapping[str, Pause] = {}
        """The last pause of each kind and queue that ever was paused, by the order's name."""
        self._ended: deque[Pause] = deque(maxlen=ENDED)
        """Pauses before those: what has waited since then has waited for their end too."""
        self.drain: Order | None = None
        """The order to take no more work, while it is in force."""
        self.spreading = Spreading(self.node, Telling(scheduler.c).publish)
        self.keeping = Keeping(lambda: scheduler.fair.identity.state)
        self._receiving = RLock()
        """Timers may have a thread of their own, while commands come in another."""
        self._has_begun = False
        self.is_addressed = False
        """Whether the remote-control command that is obeyed now is for some workers only."""

    @property
    def started_at(self) -> float:
        """When this process began, which tells it from the next of its name."""
        return self._scheduler.started_at

    @property
    def not_in_force(self) -> str | None:
        """Why pauses and drains change nothing here; ``None``: they do."""
        if not self._scheduler.switching.enforcing:
            return "it only observes, and tasks run in Celery's own order"
        return None

    def kind_of_queue(self, name: str) -> Kind:
        """The kind that a queue is of here, consumed or not."""
        return self._scheduler.fair.kind_of_queue(name)

    @property
    def ongoing(self) -> list[Pause]:
        """The pauses that were ordered and not ended."""
        return [pause for pause in self.pauses.values() if pause.ended is None]

    def left(self) -> dict[str, int | bool]:
        """What still keeps a worker that is drained: tasks that run, and what couldn't go back.

        Celery keeps what waits for its time or its rate; it goes back when that comes, or when the
        worker ends.
        """
        lanes = self._scheduler.lanes.values()
        running = self._scheduler.policy.running
        held = sum(len(lane) + len(lane.aside) for lane in lanes)
        return {
            "done": not running and not held,
            "running": running,
            "held": held,
            "scheduled": sum(lane.scheduled for lane in lanes),
            "rate_limited": sum(lane.limited for lane in lanes),
        }

    # --- orders

    def receive(self, orders: Iterable[Order], counter: int = 0) -> list[Change]:
        """Take orders into the document, and follow it; what has changed in this worker by that."""
        with self._receiving:
            before, self.orders = self.orders, self.orders.merge(orders, counter)
            if self.orders is before:
                return []
            changes = self._follow()
        for change in changes:
            self.recent.append(change)
            logger.info("celery-fair: %s, ordered by %s", change, change.by)
        for setting, why in self.live.refused.items():
            logger.warning("celery-fair: %s can't be set here as was ordered: %s", setting, why)
        return changes

    def refusal(self, orders: Iterable[Order]) -> str | None:
        """Why this worker could not follow these, in a sentence; ``None``: it could."""
        orders = list(orders)
        mine, asked = self.orders.merge(orders).of(self.node), {order.name for order in orders}
        try:  # none that was refused before: it changes nothing, and must hinder nothing
            self.live.proposed([order for name, order in mine.items() if name in asked])
        except SettingsError as error:
            return " ".join(error.problems)
        return None

    def report(self, about: Iterable[str]) -> dict[str, Any]:
        """What the commands have to know before they give orders of these names, and after."""
        names = set(about)
        what = [pause_of(name) for name in names]
        queues = any(pause is not None and pause.queue is not None for pause in what)
        return {
            "version": str(self.orders.version),
            "counter": self.orders.counter,
            "started_at": self.started_at,
            "not_in_force": self.not_in_force,
            "about": {name: self._state_of(name) for name in names},
            "orders": [order.as_list() for order in self.orders if order.name in names],
            "queues": self.queues.by_kind(self.kind_of_queue) if queues else None,
        }

    def _state_of(self, name: str) -> Any:
        """What is in force by orders of a name: a setting's value, or a word."""
        setting = setting_of(name)
        if setting is not None:
            # No other: a URL has a password in it.
            return value_of(self.live.settings, setting) if setting in LIVE_SETTINGS else None
        if name == DRAIN:
            return IN_SERVICE if self.drain is None else self.left()
        pause = self.pauses.get(name)
        return PAUSED if pause is not None and pause.ended is None else RUNNING

    def reapply(self) -> None:
        """Pause and drain what is to be, with the dispatcher and the lanes that there are now."""
        if self.pauses or self.drain is not None:
            self._stop_and_go()

    def connect(self) -> None:
        """A new connection is about to consume: not what is paused."""
        if not self._has_begun:
            self._has_begun = True
            internals.on_command(self._scheduler.c, self._note_address)
            self.receive(self.keeping.load())
            if not self._scheduler.measuring.has_fleet:
                self.spreading.ask_all()
        self.queues.connect()

    def tick(self, now: float) -> None:
        """Learn and tell, where it is time to."""
        self.spreading.hear(self._scheduler.measuring.fleet.versions)
        self.spreading.tick(self.orders, now)
        self.receive(self.keeping.found())

    def stop(self) -> None:
        """The worker ends; its process may have another one, as tests do."""
        self.keeping.stop()
        self._scheduler.fair.adopt(self.live.base)

    @property
    def version(self) -> str:
        """The version of what this worker knows; nothing, where nobody has ever ordered anything.

        Workers of a version that knows no orders can't read a word that has it.
        """
        return str(self.orders.version) if self.orders.counter else ""

    def is_behind(self) -> bool:
        """Whether others are known to have orders that have not come yet."""
        self.spreading.hear(self._scheduler.measuring.fleet.versions)
        return self.spreading.is_behind(self.orders)

    def _note_address(self, dispatch: Callable[..., Any], **body: Any) -> Any:
        self.is_addressed = bool(body.get("destination") or body.get("pattern"))
        return dispatch(**body)

    def _follow(self) -> list[Change]:
        orders = self.orders.of(self.node)
        changes = self._follow_settings(orders)
        changes += self._follow_pauses(orders)
        changes += self._follow_drain(orders.get(DRAIN))
        return changes

    def _follow_settings(self, orders: Mapping[str, Order]) -> list[Change]:
        before = self.live.settings
        changes = self.live.follow(order for name, order in orders.items() if setting_of(name))
        if self.live.settings is not before:
            applying.reconfigure(self._scheduler, self.live.settings)
        return changes

    def _follow_pauses(self, orders: Mapping[str, Order]) -> list[Change]:
        before = self.pauses
        spans = {name: pause_span(order) for name, order in orders.items() if pause_of(name)}
        # One that the document has had to drop ends nothing.
        self.pauses = {**before, **{name: span for name, span in spans.items() if span is not None}}
        if self.pauses == before:
            return []
        for name, pause in before.items():
            if (began := self.pauses[name].began) > pause.began:  # its end may have been missed
                self._ended.append(pause._replace(ended=pause.ended or began))
        changes = [
            change
            for name, pause in self.pauses.items()
            for change in _changed(name, before.get(name), pause)
        ]
        if changes:
            self._stop_and_go()
        return changes

    def _follow_drain(self, order: Order | None) -> list[Change]:
        """Drain this process, not one that was started later under the same name."""
        if order is None:
            return []
        before = self.drain
        meant = order.on and order.value == self._scheduler.started_at
        self.drain = order if meant else None
        if (before is None) == (self.drain is None):
            return []
        self._stop_and_go()
        words = (IN_SERVICE, DRAINING) if meant else (DRAINING, IN_SERVICE)
        return [Change(WORKER, *words, order.by, order.at)]

    # --- what is done by them

    def _check(self, settings: FairSettings) -> None:
        applying.check(self._scheduler, settings)

    def _stop_and_go(self) -> None:
        """Let the policy, the lanes and the queues follow."""
        in_force = self.not_in_force is None
        ongoing = self.ongoing if in_force else []
        stopped: frozenset[Kind] = frozenset(p.kind for p in ongoing if p.queue is None)
        if self.drain is not None and in_force:
            stopped = frozenset(KINDS)
        self.queues.pause(p.queue for p in ongoing if p.queue is not None)
        applying.pause(self._scheduler, stopped, self.queues.keys(), self._spans())

    def _spans(self) -> list[Pause]:
        """The last pauses of each kind, and of each routing key: a front has its own."""
        spans = [
            pause._replace(queue=key)
            for pause in (*self._ended, *self.pauses.values())
            for key in ([None] if pause.queue is None else self.queues.keys_of(pause.queue))
        ]
        return sorted(spans, key=attrgetter("began"))


def _changed(name: str, before: Pause | None, pause: Pause) -> list[Change]:
    paused, was = pause.ended is None, before is not None and before.ended is None
    what = pause_of(name)
    if what is None or paused == was:
        return []
    return [of_pause(what, paused, pause.by, pause.began if pause.ended is None else pause.ended)]
