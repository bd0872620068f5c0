"""One worker's scheduler: policy, dispatcher, lanes, sensor and fleet, driven by a tick."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

from celery.worker import state

from celery_fair.app import Fair
from celery_fair.policy import Load, Policy
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.worker import internals, startup
from celery_fair.worker.consumer import LaneQoS
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.fleet import Fleet
from celery_fair.worker.lanes import Lane
from celery_fair.worker.links import Answer, link_type
from celery_fair.worker.observing import ObservingDispatcher
from celery_fair.worker.pools import adapt
from celery_fair.worker.pulling import Puller, Pulling
from celery_fair.worker.sensor import Sensor
from celery_fair.worker.waker import Waker

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.1
AUDIT_SECONDS = 5.0
AUDIT_GRACE_SECONDS = 5.0
IDLE_READ_SECONDS = 1.0
HOARD_SECONDS = 1.0
"""How long a shut lane may keep a message that another worker could run."""


class Scheduler:
    """Made once a worker; ``connect`` and ``disconnect`` come with each broker connection."""

    def __init__(self, c: Any, fair: Fair) -> None:
        self.c = c
        self.fair = fair
        self.settings = fair.settings
        self.pool = adapt(c.pool)
        worker = c.controller
        self.max_slots = max(worker.max_concurrency or 0, worker.concurrency or 0, 1)
        policy_settings = self.settings.policy(prefetch_multiplier=c.prefetch_multiplier)
        policy_settings.check(self.max_slots)
        self.started_at = time.time()
        self.policy = Policy(
            policy_settings, slots=worker.min_concurrency or self.max_slots, now=monotonic()
        )
        self.observing = self.settings.mode == "observe"
        make = ObservingDispatcher if self.observing else Dispatcher
        self.dispatcher = make(
            self.policy, self.pool, c.on_task_request, self._call_later, fair.kind_of_queue
        )
        self.waker = Waker(self.dispatcher.pump)
        self.sensor = Sensor(self._make_link, self.settings.sensor_interval_seconds)
        self.sensor.on_answer = self._on_answer
        self.fleet = Fleet(c.hostname)
        self._said_at = self._audited_at = self._recounted_at = 0.0
        self._timer_entry: Any = None
        self.pulling: Pulling | None = None
        self.can_measure = False
        self.puller = Puller(
            c,
            fair.kind_of_queue,
            self.pool,
            lambda: self.policy.pick(1, 1, monotonic()) == BATCH,
            self.waker,
            self._queues_changed,
        )
        self.fleet_workers = 1
        self.puller.others_may_take = lambda: self.fleet_workers > 1
        if c.hub is not None:
            self.dispatcher.wake = self.waker.wake

    # --- the connection

    def connect(self) -> None:
        """Replace Celery's task consumer by lanes; called after it was made, before it consumes."""
        c = self.c
        if self.observing:
            self.pulling = self.puller.leave_to_celery()
        else:
            self.pulling = self.puller.build()
            c.task_consumer = self.pulling.consumer
            c.qos = LaneQoS(self.puller.scheduled)
            internals.keep_prefetch(c)
        self.can_measure = link_type(c.connection) is not None
        if c.hub is None and getattr(c.pool, "is_green", False):
            self.sensor.spawn_with(c.pool.spawn_n)
        self._queues_changed()
        self.dispatcher.connect(self.pulling.lanes, self.pulling.windows)
        self._timer_entry = c.timer.call_repeatedly(TICK_SECONDS, self.tick)

    def register_with_event_loop(self, hub: Any) -> None:
        """The loop starts, with no readers left from an earlier connection."""
        self.waker.register(hub)
        self.sensor.attach(hub)

    def lose_connection(self) -> None:
        """Forget what was held, before Celery cleans up what is left of the connection."""
        self.dispatcher.disconnect()

    def stop(self) -> None:
        """The loop has ended, for a reconnect or for good; running tasks go on."""
        if self._timer_entry is not None:
            self._timer_entry.cancel()
            self._timer_entry = None

    def shutdown(self) -> None:
        """The worker ends."""
        self.stop()
        self.sensor.leave([self.fleet.name])
        self.sensor.close()
        self.waker.close()

    # --- the tick

    def tick(self) -> None:
        """Look at everything that no message tells, a few times a second."""
        if self.pulling is None or not self.pool.is_running():
            return
        now = monotonic()
        with self.dispatcher.lock:
            self.resize(now)
            self._measure(now)
            changed = self.policy.observe(self.load(now), now)
            if changed is not None:
                view = self.policy.view(now)
                logger.info("celery-fair: gate %s (%s)", changed.value, view.mode_reason)
            if now - self._audited_at >= AUDIT_SECONDS:
                self._audited_at = now
                self._audit(now)
        if now - self._recounted_at >= IDLE_READ_SECONDS:
            self._recounted_at = now
            if not self.observing:
                self._recount_scheduled()
                self.c.qos.show(sum(lane.credit for lane in self.lanes.values()))
        self.dispatcher.give_back_overdue(self._hold_seconds())
        self.dispatcher.pump()

    def resize(self, now: float) -> None:
        """Follow the pool's size; autoscale may still add slots if more is held than there are."""
        slots = self.pool.slots
        if slots != self.policy.slots:
            self.policy.resize(slots, now)
        self.dispatcher.spare = max((self.c.controller.max_concurrency or 0) - slots, 0)

    def load(self, now: float) -> Load:
        """What waits and runs, as far as it can be known."""
        oldest = self.dispatcher.slots.oldest_started_at
        received = self.lanes[INTERACTIVE].oldest_received_at()
        ready_at = self.lanes[BATCH].oldest_ready_at()
        run = {kind: now - (oldest(kind) or now) for kind in KINDS}
        return Load(
            interactive_backlog=self.backlog(INTERACTIVE, now),
            batch_backlog=self.backlog(BATCH, now),
            interactive_oldest_wait_seconds=now - received if received else 0.0,
            batch_oldest_wait_seconds=max(time.time() - ready_at, 0.0) if ready_at else 0.0,
            interactive_oldest_run_seconds=run[INTERACTIVE],
            batch_oldest_run_seconds=run[BATCH],
            interactive_lane_empty=self._is_empty(INTERACTIVE, now),
            batch_lane_empty=self._is_empty(BATCH, now),
        )

    def backlog(self, kind: Kind, now: float) -> int | None:
        """What waits for a slot: ready at the broker and held here; ``None`` if unknown."""
        lane = self.lanes[kind]
        if not self.queues(kind):
            return lane.waiting
        if self._is_empty(kind, now):
            return lane.waiting
        ready = self.sensor.count(self.queues(kind), now)
        return None if ready is None else ready + lane.waiting

    def queues(self, kind: Kind) -> list[str]:
        """The names of the queues that this lane consumes."""
        if self.pulling is None:
            return []
        names = internals.active_queues(self.pulling.parts[kind])
        return [name for name in names if self.fair.kind_of_queue(name) == kind]

    def queue_names(self, kind: Kind) -> list[str]:
        """The names of the queues that belong to this lane, consumed already or about to be."""
        if self.pulling is None:
            return []
        names = [queue.name for queue in self.pulling.parts[kind].queues]
        return [name for name in names if self.fair.kind_of_queue(name) == kind]

    @property
    def lanes(self) -> dict[Kind, Lane]:
        return dict(self.dispatcher.lanes)

    def _is_empty(self, kind: Kind, now: float) -> bool:
        window = self.dispatcher.windows[kind]
        return self.lanes[kind].is_empty(now, window.round_trip_seconds)

    def _measure(self, now: float) -> None:
        """Read the queues, unless an idle lane already tells that they are empty."""
        if not self.can_measure:
            return
        empty = {kind: self._is_empty(kind, now) for kind in KINDS}
        speak = now - self._said_at >= self.fleet.say_seconds
        stale = now - self.sensor.read_at >= IDLE_READ_SECONDS
        urgent = not empty[INTERACTIVE]
        if not (speak or urgent or (stale and not empty[BATCH])):
            return
        queues = [queue for kind in KINDS for queue in self.queues(kind)]
        member = None
        if speak:
            me = self.policy.member(self.fleet.name)
            member = (self.fleet.name, self.fleet.word(me, queues))
        if self.sensor.tick(queues, now, urgent=urgent, member=member) and speak:
            self._said_at = now

    def _on_answer(self, answer: Answer) -> None:
        now = monotonic()
        for window in self.dispatcher.windows.values():
            window.measured(self.sensor.latency_seconds)
        if answer.members:
            self.fleet.hear(answer.members, now)
            self.sensor.leave(self.fleet.forgotten(now))
        view = self.fleet.view(self.policy.member(self.fleet.name), now)
        self.fleet_workers = view.workers if view is not None else 1
        self.policy.see_fleet(view, now)

    def _make_link(self) -> Any:
        kind_of_link = link_type(self.c.connection)
        if kind_of_link is None:
            raise LookupError("this transport's queues can't be measured")
        return kind_of_link(self.c.app)

    def _audit(self, now: float) -> None:
        for slot in self.dispatcher.slots.audit(internals.is_known, now - AUDIT_GRACE_SECONDS):
            logger.warning(
                "celery-fair: the slot of %s was never given back; freed by the audit",
                slot.request,
            )

    def _recount_scheduled(self) -> None:
        """Count ETA tasks anew from Celery's own books, which a revoked one leaves at once."""
        counts = dict.fromkeys(self.lanes.values(), 0)
        for request in tuple(state.scheduled_requests):
            lane = getattr(internals.message_of(request), "fair_lane", None)
            if lane in counts:
                counts[lane] += 1
        for lane, count in counts.items():
            lane.scheduled = count

    def _hold_seconds(self) -> float:
        if self.puller.others_may_take():
            return min(HOARD_SECONDS, self.settings.hold_max_seconds)
        return self.settings.hold_max_seconds

    def _queues_changed(self) -> None:
        kinds = [
            kind for kind in KINDS if self.pulling and self.pulling.consumer.parts[kind].queues
        ]
        self.policy.serve(kinds or KINDS, monotonic())
        self.dispatcher.grant()

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        return self.c.timer.call_after(seconds, callback)

    # --- what Celery is given instead of its own

    def install(self) -> None:
        """Put our hooks where the task strategies will look them up, before ``Tasks.start``."""
        c, pool = self.c, self.c.pool
        c.on_task_request = self.dispatcher.on_task_request
        c.on_close = c.blueprint.on_close = partial(self._on_close, c.on_close)
        pool.apply_async = partial(self.dispatcher.apply_async, pool.apply_async)
        if self.observing:
            return
        c.apply_eta_task = partial(self._apply_eta_task, c.apply_eta_task)
        c._limit_task = partial(self._limit_task, c._limit_task)
        c._limit_post_eta = partial(self._limit_post_eta, c._limit_post_eta)
        c.on_connection_error_after_connected = partial(
            self._on_connection_error, c.on_connection_error_after_connected
        )

    def _apply_eta_task(self, apply: Callable[[Any], Any], request: Any) -> None:
        internals.message_of(request).fair_lane.scheduled -= 1
        apply(request)

    def _limit_task(self, limit: Callable[..., Any], request: Any, *args: Any) -> Any:
        internals.message_of(request).fair_lane.limited += 1
        request.fair_limited = True
        return limit(request, *args)

    def _limit_post_eta(self, limit: Callable[..., Any], request: Any, *args: Any) -> Any:
        lane = internals.message_of(request).fair_lane
        lane.scheduled -= 1
        lane.limited += 1
        request.fair_limited = True
        return limit(request, *args)

    def _on_connection_error(self, handle: Callable[[Any], None], error: Any) -> None:
        self.lose_connection()
        handle(error)

    def _on_close(self, close: Callable[[], None]) -> None:
        close()
        self.dispatcher.flushed()

    def announce(self) -> None:
        """Log in one line how the slots are split, and warn of what would not work."""
        startup.announce(self)
