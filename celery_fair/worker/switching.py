"""Celery's own order or ours: a worker changes from one to the other while it runs.

Each way has its consumer, and each consumer its channels, because what came by a channel is
acknowledged there, and its gate or its prefetch count is its own. They are made once a connection,
when they are needed; the one that does not pull is cancelled, and its channels stay open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

from celery_fair.app import Fair
from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker import internals
from celery_fair.worker.consumer import LaneConsumer, WorkerQoS
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.hooks import Hooks
from celery_fair.worker.lanes import Lane
from celery_fair.worker.observing import Observing, kind_and_copy
from celery_fair.worker.pulling import Puller, Pulling

logger = logging.getLogger(__name__)

WorkerMode = Literal["enforce", "observe"]


class Switching:
    """The way in which one worker pulls and starts its tasks, over all of its connections."""

    def __init__(
        self,
        c: Any,
        fair: Fair,
        dispatcher: Dispatcher,
        puller: Puller,
        hooks: Hooks,
    ) -> None:
        self._c = c
        self._fair = fair
        self._dispatcher = dispatcher
        self._puller = puller
        self._hooks = hooks
        self.on_mode: Callable[[bool], None] = lambda enforcing: None
        """Called with each mode as it begins: whether it is to enforce."""
        self.on_switched: Callable[[Pulling], None] = lambda pulling: None
        """Called with what pulls from now on, over the same connection."""
        self._observing = Observing(dispatcher)
        self._made: dict[WorkerMode, Pulling] = {}
        self._of_celery: Any = None
        self.mode: WorkerMode = fair.settings.mode
        self._impossible: WorkerMode | None = None

    def begin(self) -> None:
        """Put the hooks of the first mode, before Celery's strategies look them up."""
        self._hooks.install()
        self._hooks.on_lost = self.disconnect
        self._hook()

    @property
    def enforcing(self) -> bool:
        return self.mode == "enforce"

    # --- over the life of a connection

    def connect(self) -> Pulling:
        """Celery has made its consumer on a new connection, which nobody consumes from yet."""
        c = self._c
        self._made.clear()
        self._of_celery = c.qos
        c.qos = WorkerQoS(self._puller.scheduled)
        return self._use(self._make())

    def disconnect(self) -> None:
        """The connection is lost, of the way not taken too."""
        self._dispatcher.disconnect()
        for pulling in self._made.values():
            for lane in pulling.lanes.values():
                lane.close()
            for window in pulling.windows.values():
                window.settle()

    def _make(self) -> Pulling:
        make = self._puller.build if self.enforcing else self._puller.leave_to_celery
        pulling = self._made[self.mode] = make()
        return pulling

    def _use(self, pulling: Pulling) -> Pulling:
        self._c.task_consumer = pulling.consumer
        self._c.qos.of_celery = None if self.enforcing else self._of_celery
        if self.enforcing:
            internals.keep_prefetch(self._c)
        return pulling

    def _hook(self) -> None:
        self._dispatcher.enforcing = self.enforcing
        self._fair.fronts.served = self.enforcing
        if self.enforcing:
            self._hooks.enforce()
        else:
            self._hooks.observe(self._observing)
        self.on_mode(self.enforcing)

    # --- while it runs

    def follow(self, mode: WorkerMode) -> None:
        """Have the mode become this one soon, in the loop, if it isn't and can be."""
        if mode == self.mode:
            self._impossible = None
        elif mode != self._impossible:
            self._c.call_soon(self.to, mode)

    def to(self, mode: WorkerMode) -> None:
        """Change over, between two turns of the loop; without effect if that is the mode already.

        If it can't be done, the worker goes on as before, and says why in its log; one that loses
        its connection meanwhile comes back in the new mode.
        """
        if mode == self.mode:
            return
        before: WorkerMode = self.mode
        try:
            with self._dispatcher.lock:  # timers may have a thread of their own
                self._change(mode)
        except self._c.connection_errors:
            raise
        except Exception as error:
            logger.exception("celery-fair: mode %s can't be had, so it stays %s", mode, before)
            self._impossible = mode
            self._go_back(before, error)

    def _go_back(self, mode: WorkerMode, error: Exception) -> None:
        """Nothing may be consumed just now: a reconnect mends all, at the cost of what runs."""
        try:
            with self._dispatcher.lock:
                self._change(mode)
        except Exception:
            raise ConnectionResetError("celery-fair: consuming anew") from error

    def _change(self, mode: WorkerMode) -> None:
        self.mode = mode  # a connection lost from here on comes back in it
        self._hook()
        consumer = self._c.task_consumer
        (consumer.rest if isinstance(consumer, LaneConsumer) else consumer.cancel)()
        self._pass_on_held()
        pulling = self._made.get(mode)
        if pulling is None:
            pulling = self._make_beside()
        self._c.update_strategies()
        pulling.consumer.on_message = consumer.on_message
        self._use(pulling)
        self._count_waiting(pulling)
        self.on_switched(pulling)
        self._consume(pulling.consumer)

    def _make_beside(self) -> Pulling:
        """Make the other way's consumer on the present connection."""
        if self.enforcing:
            internals.renew_default_channel(self._c.connection)
        else:
            qos = self._c.qos
            internals.consume_as_celery(self._c)
            self._of_celery, self._c.qos = self._c.qos, qos
        return self._make()

    def _pass_on_held(self) -> None:
        """Celery would have it all in the pool by now."""
        lanes = self._dispatcher.lanes.values() if not self.enforcing else ()
        for held in sorted(held for lane in lanes for held in lane.take_all()):
            self._observing.on_task_request(held.request)

    def _count_waiting(self, pulling: Pulling) -> None:
        """Messages that wait for their time or their rate are counted the new way."""
        scheduled = internals.scheduled_requests(self._c.timer)
        if not self.enforcing:
            self._of_celery.value = (self._c.initial_prefetch_count or 0) and (
                self._c.initial_prefetch_count + len(scheduled)
            )
            return
        limited = internals.limited_requests(self._c)
        for lane in pulling.lanes.values():
            lane.limited = 0
        for request in [*scheduled, *limited]:
            self._lane_of(request, pulling)
        for request in limited:
            self._lane_of(request, pulling).limited += 1
            request.fair_limited = True

    def _lane_of(self, request: Any, pulling: Pulling) -> Lane:
        kind, _ = kind_and_copy(request, self._dispatcher.kind_of_queue)
        lane = pulling.lanes[BATCH if kind == BATCH else INTERACTIVE]
        internals.message_of(request).fair_lane = lane
        return lane

    def _consume(self, consumer: Any) -> None:
        """Consume what this worker is to consume by now: queues came and went at the other."""
        wanted = self._c.app.amqp.queues.consume_from
        present = {queue.name for queue in consumer.queues}
        for name in present - wanted.keys():
            consumer.cancel_by_queue(name)
        for name in [name for name in wanted if name not in present]:
            consumer.add_queue(wanted[name])
        consumer.consume()
