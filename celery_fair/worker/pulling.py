"""Builds the lanes of one connection: a kombu channel and consumer a kind, and their windows."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from celery_fair.headers import tenant_of
from celery_fair.policy.heads import Heads
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.tenant_rules import Tenant
from celery_fair.policy.tenants import Turn
from celery_fair.worker import internals
from celery_fair.worker.amqp_windows import AmqpConsumerWindow, AmqpWindow
from celery_fair.worker.consumer import LaneConsumer
from celery_fair.worker.lanes import NO_LIMIT, ROOM_LIMIT, Lane
from celery_fair.worker.pools import Pool
from celery_fair.worker.waker import Waker
from celery_fair.worker.windows import (
    GreenRedisWindow,
    RedisWindow,
    SoloRedisWindow,
    VirtualWindow,
    Window,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pulling:
    """All that pulls over one connection."""

    consumer: Any
    parts: Mapping[Kind, Any]
    lanes: Mapping[Kind, Lane]
    windows: Mapping[Kind, Window]


class Puller:
    """Makes a ``Pulling`` out of the consumer that Celery has just set up on a new connection."""

    def __init__(
        self,
        c: Any,
        kind_of_queue: Callable[[str], Kind],
        pool: Pool,
        *,
        batch_first: Callable[[], bool],
        others_may_take: Callable[[], bool],
        before_look: Callable[[], None],
        ends_probe: Callable[[Lane, Any], bool],
        waker: Waker,
        on_queues_changed: Callable[[], None],
        sharded: Iterable[Kind] = (),
        room_limit: int = ROOM_LIMIT,
    ) -> None:
        self._c = c
        self._kind_of_queue = kind_of_queue
        self._pool = pool
        self._batch_first = batch_first
        self._others_may_take = others_may_take
        self._before_look = before_look
        self._ends_probe = ends_probe
        self._waker = waker
        self._on_queues_changed = on_queues_changed
        self._consumer: LaneConsumer | None = None
        self.heads: Mapping[Kind, Heads] = {kind: Heads() for kind in sharded}
        self.tenants_differ: Callable[[], bool] = lambda: True
        """Whether they take turns; else shards do."""
        self._room_limit = room_limit
        self._unnoted: deque[internals.Unnoted] = deque()

    def build(self) -> Pulling:
        """Take over from ``c.task_consumer``, whose queues are declared and not yet consumed."""
        lanes = self._lanes()
        parts = self._parts()
        if self._driver == "redis":
            self._keep_what_is_popped([part.channel for part in parts.values()])
        windows = self._windows(lanes, parts)
        consumer = LaneConsumer(parts, windows, self._kind_of_queue, self._on_queues_changed)
        self._consumer = consumer
        for kind, part in parts.items():
            self._deliver_to(consumer, part, lanes[kind], windows[kind])
        if self._driver == "redis" and self._c.hub is None:
            internals.wake_redis_poller(self._c.connection, self._waker.fileno(), self._waker.drain)
        return Pulling(consumer, parts, lanes, windows)

    def leave_to_celery(self) -> Pulling:
        """Leave Celery's own consumer in place: the lanes hold nothing, and are only looked at."""
        lanes = self._lanes()
        stock = self._c.task_consumer
        if self._driver == "redis":
            self._keep_what_is_popped([stock.channel])
        windows = {kind: Window(lane, stock) for kind, lane in lanes.items()}
        return Pulling(stock, dict.fromkeys(KINDS, stock), lanes, windows)

    def _lanes(self) -> dict[Kind, Lane]:
        """Before their time, or behind a rate limit, they hold as many as Celery would."""
        scheduled = internals.eta_task_limit(self._c.app) or NO_LIMIT
        slots = max(self._pool.slots, self._c.controller.max_concurrency or 0)
        limited = self._c.prefetch_multiplier * slots or NO_LIMIT
        now = monotonic()
        return {kind: Lane(kind, now, scheduled, limited, self._room_limit) for kind in KINDS}

    @property
    def _driver(self) -> str:
        return str(self._c.connection.transport.driver_type)

    @property
    def _one_channel(self) -> bool:
        return self._driver == "redis" and self._pool.one_task_a_turn

    def _parts(self) -> dict[Kind, Any]:
        stock = self._c.task_consumer
        queues: dict[Kind, list[Any]] = {kind: [] for kind in KINDS}
        for queue in stock.queues:
            queues[self._kind_of_queue(queue.name)].append(queue)
        own = self._c.connection.default_channel
        channels = {INTERACTIVE: own, BATCH: self._batch_channel(own)}
        return {
            kind: self._c.app.amqp.Consumer(
                channels[kind],
                queues=queues[kind],
                accept=self._c.app.conf.accept_content,
                auto_declare=False,
            )
            for kind in KINDS
        }

    def _batch_channel(self, interactive: Any) -> Any:
        if self._one_channel:
            return interactive
        channel = self._c.connection.channel()
        if self._driver == "redis":
            internals.share_connections(channel, interactive)
        return channel

    def _keep_what_is_popped(self, channels: Iterable[Any]) -> None:
        """Whatever the last connection could not note; and what this one can't."""
        channels = list(dict.fromkeys(channels))
        internals.return_unnoted(channels[0], self._unnoted)
        for channel in channels:
            internals.keep_unnoted(channel, self._unnoted)
            internals.unwatch_before_closing(channel)

    def _windows(self, lanes: Mapping[Kind, Lane], parts: Mapping[Kind, Any]) -> dict[Kind, Window]:
        if self._one_channel:
            shared = SoloRedisWindow(
                [(lanes[kind], parts[kind]) for kind in KINDS],
                lambda: self._in_order(lanes),
                self.heads,
            )
            return dict.fromkeys(KINDS, shared)
        return {kind: self._window(lanes[kind], parts[kind]) for kind in KINDS}

    def _window(self, lane: Lane, part: Any) -> Window:
        if self._driver == "redis":
            heads = self.heads.get(lane.kind)
            if self._c.hub is None:
                return GreenRedisWindow(lane, part, self._waker.wake, heads)
            return RedisWindow(lane, part, heads)
        if self._driver == "amqp":
            shared = internals.is_qos_global(self._c)
            return (AmqpWindow if shared else AmqpConsumerWindow)(lane, part)
        if internals.is_virtual(part.channel):
            return VirtualWindow(lane, part, self._before_look)
        if not self._c.restart_count:
            logger.warning(
                "celery-fair: the transport %r can't be held back, so %s messages are pulled as "
                "Celery does; what is held here is still dispatched by turns",
                self._driver,
                lane.kind,
            )
        return Window(lane, part)

    def _in_order(self, lanes: Mapping[Kind, Lane]) -> Sequence[Lane]:
        interactive, batch = lanes[INTERACTIVE], lanes[BATCH]
        return (batch, interactive) if self._batch_first() else (interactive, batch)

    def _deliver_to(self, consumer: LaneConsumer, part: Any, lane: Lane, window: Window) -> None:
        # Other transports choose among queues themselves.
        heads = self.heads.get(lane.kind) if self._driver == "redis" else None

        def on_message(message: Any) -> None:
            window.delivered(message)
            lane.asked_at = now = monotonic()
            if heads is not None:
                heads.came(internals.queue_of(message) or "", self._tenant_of(message), now)
            if self._must_give_back(lane, window, message):
                internals.return_to_broker(message)
                return
            message.fair_lane = lane
            consumer.receiving = message
            consumer.on_message(message)  # type: ignore[misc]

        def on_decode_error(message: Any, error: Exception) -> None:
            window.delivered(message)
            self._c.on_decode_error(message, error)

        part.on_message = on_message
        part.on_decode_error = on_decode_error

    def _tenant_of(self, message: Any) -> Tenant:
        return tenant_of(message.headers) if self.tenants_differ() else None

    def _must_give_back(self, lane: Lane, window: Window, message: Any) -> bool:
        """Whether a message that was under way when the lane was shut is another worker's to take.

        Nothing has seen it yet, so no event, log line or request has to be undone.
        """
        if lane.probing and self._ends_probe(lane, message):
            return self._pool.is_running() and window.can_give_back(message)
        return (
            self._others_may_take()
            and lane.room() + lane.credit // 2 <= 0
            and self._pool.is_running()
            and window.can_give_back(message)
        )

    def started(self, kind: Kind, turn: Turn) -> None:
        """A task has started, and its tenant's shards are asked by how long it runs."""
        heads = self.heads.get(kind)
        if heads is not None:
            heads.started(turn)

    def ended(self, kind: Kind, turn: Turn, run_seconds: float) -> None:
        """It has ended."""
        heads = self.heads.get(kind)
        if heads is not None:
            heads.ended(turn, run_seconds)

    def scheduled(self) -> None:
        """The message being received waits for its ETA."""
        if self._consumer is not None and self._consumer.receiving is not None:
            self._consumer.receiving.fair_lane.scheduled += 1
