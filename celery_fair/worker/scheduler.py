"""One worker's scheduler: policy, dispatcher, lanes, sensor and fleet, driven by a tick."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from celery_fair.app import Fair
from celery_fair.engine.probing import Probing
from celery_fair.observe.events import Announcer
from celery_fair.observe.facts import collect, tasks
from celery_fair.observe.finished import FinishedTasks
from celery_fair.observe.log import TaskLog
from celery_fair.observe.record import Record
from celery_fair.observe.starts import Starts
from celery_fair.observe.timeline import Timeline
from celery_fair.observer import GateChange
from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.waiting import Scene
from celery_fair.policy.yields import YieldRules
from celery_fair.record.recording import Recording
from celery_fair.settings import FairSettings
from celery_fair.worker import internals
from celery_fair.worker.backlog import Backlog
from celery_fair.worker.clearing.making import clearing_of
from celery_fair.worker.copies import Copies
from celery_fair.worker.deadlines import Deadlines
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.drops import Drops
from celery_fair.worker.holding import Holding
from celery_fair.worker.hooks import Hooks
from celery_fair.worker.inversions import Inversions
from celery_fair.worker.lanes import Lane
from celery_fair.worker.measuring import Measuring
from celery_fair.worker.pools import adapt
from celery_fair.worker.pulling import Puller, Pulling
from celery_fair.worker.resource_views import ResourceViews
from celery_fair.worker.steering import Steering
from celery_fair.worker.steering.applying import check
from celery_fair.worker.switching import Switching
from celery_fair.worker.waker import Waker
from celery_fair.worker.yielding import Asking
from celery_fair.worker.yielding_inline import InlineAsking
from celery_fair.yielding.runs import BOARD

logger = logging.getLogger(__name__)

TICK_SECONDS = 0.1
RECOUNT_SECONDS = 1.0
AUDIT_SECONDS = 5.0
STOP_SECONDS = 2.0
"""How long the end of the loop waits for a task that is being failed."""


class Scheduler:
    """Made once a worker, with its hooks; ``connect`` comes with each connection to the broker."""

    def __init__(self, c: Any, fair: Fair) -> None:
        self.c = c
        self.fair = fair
        self.started_at = time.time()
        self.pool = adapt(c.pool)
        self.policy = self._make_policy(c)
        self.engine = Probing.of(self.settings)
        self.resource_views = ResourceViews.of(fair)
        self.dispatcher = Dispatcher(
            self.policy, self.pool, c.on_task_request, self._call_later, fair.kind_of_queue
        )
        for told in (self.dispatcher, self.dispatcher.timing_out, self.dispatcher.giving_back):
            told.observers = fair.observers
        self.dispatcher.tenants.go_by(self.settings)
        self.copies = self.dispatcher.copies = Copies(lambda: fair.identity.state)
        self.clearing = self.dispatcher.clearing = clearing_of(self)
        self.asking = self.dispatcher.asking = Asking(
            self.dispatcher, c.controller.max_concurrency or 1, self._yield_rules
        )
        self.inline = InlineAsking(self)
        alone = self.inline if self.pool.one_task_a_turn else None
        fair.runs.open(self.asking.board, alone)  # before the pool forks
        if internals.starts_anew(c.controller):
            os.environ[BOARD] = self.asking.path
        self.drops = Drops(fair, self.dispatcher.counting.counts, self.copies.dropped)
        self.record, self.timeline = Record(monotonic()), Timeline(monotonic())
        self.starts = Starts()
        fair.observers.add(self.dispatcher.counting.recent)
        self.task_log = TaskLog(c.hostname, self.settings.log_tasks)
        if self.settings.log_tasks:
            fair.observers.add(self.task_log)
        self.recording = Recording(fair, c.hostname)
        self.dispatcher.counting.sinks.append(self.recording)
        self.announcer = Announcer(partial(collect, self), partial(tasks, self))
        self.waker = Waker(self.dispatcher.pump)
        if c.hub is not None:
            self.dispatcher.wake_by(self.waker.wake)
        self.measuring = Measuring(
            c, self.policy, self.settings.sensor_interval_seconds, self.dispatcher.measured
        )
        self.backlog = Backlog(self.dispatcher, self.measuring, self.engine, fair.kind_of_queue)
        if self.clearing is not None:
            self.measuring.uncleared = self.dispatcher.uncleared
        self.puller = Puller(
            c,
            fair.kind_of_queue,
            self.pool,
            batch_first=lambda: self.policy.pick(1, 1, monotonic()) == BATCH,
            others_may_take=lambda: self.measuring.fleet_workers > 1,
            before_look=self.dispatcher.before_look,
            ends_probe=self.dispatcher.probing.ends,
            waker=self.waker,
            on_queues_changed=self._queues_changed,
            sharded=fair.shards.hands,
            room_limit=fair.settings.waiting_room,
        )
        if self.puller.heads:
            self.dispatcher.tenants.on_start = self.puller.started
            self.dispatcher.tenants.on_end = self.puller.ended
        self.puller.tenants_differ = lambda: self.dispatcher.tenants.are_on
        self.holding, self.inversions = Holding(fair), Inversions()
        self.pulling: Pulling | None = None
        self.observed: FinishedTasks | None = None
        self._timer_entry: Any = None
        self._audited_at = self._recounted_at = 0.0
        self.switching = Switching(c, fair, self.dispatcher, self.puller, Hooks(c, self.dispatcher))
        self.switching.on_mode, self.switching.on_switched = self._follow_mode, self._serve
        self.switching.begin()
        self.steering = Steering(self)
        self.measuring.orders = self.steering

    @property
    def settings(self) -> FairSettings:
        """What is in force now: some of it may have been set live."""
        return self.fair.settings

    def _make_policy(self, c: Any) -> Policy:
        check(self, self.settings)
        slots = c.controller.min_concurrency or 1
        return Policy(self.policy_settings(self.settings), slots=slots, now=monotonic())

    def policy_settings(self, settings: FairSettings) -> PolicySettings:
        """What the policy decides by, on this worker's transport."""
        found = settings.policy(prefetch_multiplier=self.c.prefetch_multiplier)
        interval = internals.polling_interval(self.c.conninfo)
        if interval is None:
            return found
        # Where messages come only at each look, what is held must last until the next.
        return replace(found, lookahead_seconds=max(found.lookahead_seconds, 1.5 * interval))

    def _yield_rules(self) -> YieldRules:
        return YieldRules(self.settings.yield_min_seconds, self.settings.yield_max_overhead)

    # --- the connection

    def connect(self) -> None:
        """Replace Celery's task consumer by lanes; called after it was made, before it consumes."""
        c = self.c
        if self.engine is not None:
            self.engine.start()
        self.resource_views.start()
        self.recording.start()
        self.holding.connect()
        self.dispatcher.watch_runs(self.holding.patience_seconds, self.holding.ran)
        pulling = self.switching.connect()
        self.measuring.connect()
        self._serve(pulling)
        self.steering.connect()
        self.copies.loop_begins(self.dispatcher.slots, runs_tasks=self.pool.one_task_a_turn)
        self._timer_entry = c.timer.call_repeatedly(TICK_SECONDS, self.tick)

    def _follow_mode(self, enforcing: bool) -> None:
        """What ends tasks before their time, or after it, and what retries them, enforces too."""
        self.observed = self.dispatcher.counting.observe(not enforcing)
        retrying = self.fair.retrying
        (retrying.open if enforcing else retrying.rest)()  # at first before the pool forks
        self.asking.enforcing = enforcing
        self.dispatcher.time_limits = self.settings.time_limits if enforcing else {}
        self.dispatcher.probing.deadlines = Deadlines(self.settings.timeouts if enforcing else {})
        self.dispatcher.probing.deadlines.learn(self.c.app.tasks if enforcing else {})

    def _serve(self, pulling: Pulling) -> None:
        """Pull and start tasks in this way from now on."""
        self.pulling = self.backlog.pulling = pulling
        if self.c.hub is None and self.pool.one_task_a_turn:
            self.dispatcher.confine_to_this_thread()
        if self.c.hub is None and all(window.looks for window in pulling.windows.values()):
            self.dispatcher.give_back_in_this_thread()
        self.dispatcher.connect(pulling.lanes, pulling.windows)
        self.steering.reapply()
        self._queues_changed()

    def register_with_event_loop(self, hub: Any) -> None:
        """The loop starts, with no readers left from an earlier connection."""
        self.waker.register(hub)
        self.measuring.sensor.attach(hub)

    def stop(self) -> None:
        """The loop has ended, for a reconnect or for good; running tasks go on.

        For good: then those that can yield do, and go on in another worker.
        """
        if not self.pool.is_running():
            self.asking.ask_all()
        if self._timer_entry is not None:
            internals.end_timer(self._timer_entry)
            self._timer_entry = None
        self.dispatcher.timing_out.stop(STOP_SECONDS)
        self.copies.loop_ends(self.dispatcher.slots)
        if self.clearing is not None:
            self.clearing.disconnect()
        if self.c.hub is not None:
            internals.forget_pollers(self.c.hub)

    def shutdown(self) -> None:
        """The worker ends."""
        self.stop()
        self.copies.stop(self.dispatcher.slots)
        self.dispatcher.settle()  # what has ended since the loop did
        self.recording.stop()
        if self.clearing is not None:
            self.clearing.stop()
        self.fair.observers.remove(self.task_log)
        self.fair.observers.remove(self.dispatcher.counting.recent)
        self.fair.fronts.served = False
        self.fair.retrying.close()
        self.fair.runs.close()
        self.inline.close()
        self.steering.stop()
        self.resource_views.stop()
        if self.engine is not None:
            self.engine.stop()
        self.drops.close()
        self.measuring.close()
        self.waker.close()

    # --- the tick

    def tick(self) -> None:
        """Look at everything that no message tells, a few times a second."""
        if self.pulling is None or not self.pool.is_running():
            self.dispatcher.settle()
            return
        with self.dispatcher.lock:
            now = monotonic()  # not before: under solo the lock may be waited for
            self._follow_pool(now)
            self._measure(now)
            self._observe(now)
            if now - self._audited_at >= AUDIT_SECONDS:
                self._audited_at = now
                self._audit()
            if now - self._recounted_at >= RECOUNT_SECONDS and self.switching.enforcing:
                self._recounted_at = now
                self._recount_scheduled()
                self.inversions.look(self.dispatcher.slots, self.pool.slots, self.lanes, now)
            self.holding.look(self.dispatcher.slots, now)
            yieldable = self.asking.tick(now)
            self.dispatcher.yieldable = 0 if self.measuring.others_free else yieldable
            if self.copies.seen:
                self.copies.tick(self.dispatcher.slots, now)
        self.dispatcher.give_back_overdue(
            self.holding.seconds(self.measuring.others_free, self.policy.fleet_reserve),
            self.holding.longest_seconds,
            self.measuring.others_free > 0,
        )
        self.dispatcher.tick()
        self.dispatcher.settle()
        self.steering.tick(now)
        self.switching.follow(self.settings.mode)
        self._feed_retries(now)
        self.announcer.tick(internals.event_sender(self.c), self.measuring.fleet_workers, now)

    def _feed_retries(self, now: float) -> None:
        """Batch that runs for the first time pays for what runs again."""
        budget, counting = self.fair.retrying.budget, self.dispatcher.counting
        if budget is not None and counting.first_attempts:
            begun, counting.first_attempts = counting.first_attempts, 0
            budget.started(begun, now)

    def _follow_pool(self, now: float) -> None:
        """Autoscale may still add slots, but only if more is held than there are."""
        slots = self.pool.slots
        if slots != self.policy.slots:
            self.policy.resize(slots, now)
        self.dispatcher.spare = max((self.c.controller.max_concurrency or 0) - slots, 0)

    def _measure(self, now: float) -> None:
        for kind, lane in self.lanes.items():
            ready = self.measuring.count(self.backlog.queues(kind), now)
            lane.doubtful = bool(ready)
            if ready == 0:
                lane.empty_at = now
        for kind, heads in self.puller.heads.items():
            sensor = self.measuring.sensor
            heads.forget_empty((sensor.ready or {}).get, sensor.read_at)
            heads.tick(self.dispatcher.tenants.rules, now, self.lanes[kind].is_capped)
        # Who listens has yet to learn whether batch is paused, and fails nothing for having waited.
        told = {kind: lane for kind, lane in self.lanes.items() if self._may_probe(kind)}
        self.dispatcher.probing.look(told, now)
        paused = self.policy.paused
        self.measuring.tick(
            [queue for kind in KINDS for queue in self.backlog.queues(kind)],
            now,
            interactive_empty=INTERACTIVE in paused or self.backlog.is_empty(INTERACTIVE, now),
            batch_empty=self.backlog.is_empty(BATCH, now),
            serves=[q for kind in KINDS if kind not in paused for q in self.backlog.queues(kind)],
        )

    def _may_probe(self, kind: Kind) -> bool:
        return not (kind == BATCH and self.policy.listening)

    def _observe(self, now: float) -> None:
        load = self.backlog.load(now)
        self.dispatcher.tenants.tick(load, self.policy.stretch, now)
        changed = self.policy.observe(load, now)
        if changed is not None:
            self.tell_change()
        if self.switching.enforcing:
            scene = self.scene(now)
            self.record.tick(scene, now)
            self.timeline.tick(scene, now)
            self.starts.tick(self.dispatcher.dispatched, now)

    def scene(self, now: float) -> Scene:
        """What says why something waits here."""
        interactive, batch = self.lanes.get(INTERACTIVE), self.lanes.get(BATCH)
        if interactive is None or batch is None:  # not connected yet
            return self.policy.scene(0, 0, now)
        limited = interactive.limited, batch.limited
        return self.policy.scene(len(interactive), len(batch), now, limited)

    def tell_change(self) -> None:
        """Say that the gate has changed, wherever that is told."""
        view = self.policy.view(monotonic())
        cause = view.mode_cause.value if view.mode_cause else ""
        change = GateChange(time.time(), view.mode.value, cause, view.mode_reason)
        self.record.changes.append(change)
        logger.info("celery-fair: gate %s (%s)", change.mode, change.reason)
        self.fair.observers.tell("mode_changed", change)

    def _audit(self) -> None:
        for request in self.dispatcher.slots.audit(internals.is_known):
            logger.warning(
                "celery-fair: the slot of %s was never given back; freed by the audit", request
            )
        for request in self.dispatcher.slots.ended(internals.known_requests()):
            internals.count_no_more(request)
            logger.info("celery-fair: %s has ended, and Celery still counted it", request)

    def _recount_scheduled(self) -> None:
        """Count ETA tasks anew from Celery's own books, where a revoked one stays until it is due.

        It waits for nothing, so it takes no place among those that its lane may hold.
        """
        counts = dict.fromkeys(self.lanes.values(), 0)
        for request in internals.scheduled_requests(self.c.timer):
            lane = getattr(internals.message_of(request), "fair_lane", None)
            if lane in counts and not internals.is_flagged_revoked(request):
                counts[lane] += 1
        for lane, count in counts.items():
            lane.scheduled = count
        self.c.qos.show(sum(lane.credit for lane in self.lanes.values()))

    @property
    def lanes(self) -> Mapping[Kind, Lane]:
        """The lanes of the present connection."""
        return self.dispatcher.lanes

    def _queues_changed(self) -> None:
        kinds = [kind for kind in KINDS if self.backlog.queue_names(kind)]
        if self.policy.serve(kinds or KINDS, monotonic()) is not None:
            self.tell_change()
        self.dispatcher.grant()

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        return self.c.timer.call_after(seconds, callback)
