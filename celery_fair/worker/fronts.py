"""Has a worker consume the front of each queue that it consumes (``celery_fair.front``)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

from celery_fair.app import Fair
from celery_fair.front import TRANSPORTS, behind, front_like, front_of, may_have_front
from celery_fair.worker import internals
from celery_fair.worker.adopting import adopt
from celery_fair.worker.consumer import LaneConsumer
from celery_fair.worker.shards import WorkerShards

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5
"""How long after a queue was added or cancelled its front is."""


class WorkerFronts:
    """The fronts of one ``Consumer``'s queues, on whatever connection it has.

    They stand beside their queues in Celery's own ``consume_from``: so Celery declares, consumes
    and cancels them as it does all others. They are not among the queues that the app knows by
    name; a front that is there, by ``-Q`` for instance, is somebody's own.
    """

    def __init__(self, c: Any, shards: WorkerShards | None = None) -> None:
        self._c = c
        self._shards = WorkerShards(c) if shards is None else shards
        self._refused: set[str] = set()
        self._made: set[str] = set()
        self._is_asked = False

    def add_all(self) -> None:
        """Give each queue that is to be consumed its front, where it can have one.

        A queue may have been cancelled on the last connection, which took the timer with it.
        """
        self._is_asked = False
        self._forget_cancelled()
        consumed = self._consumed
        for front in self._usable(list(consumed.values())):
            self._made.add(front.name)
            consumed[front.name] = front

    def changed(self) -> None:
        """Queues were added or cancelled: follow a little later.

        Celery performs what is asked of it by remote control after what it is at, the latest first
        where there is no event loop: to wait for the broker here would turn requests around.
        """
        if not self._is_asked:
            self._is_asked = True
            self._c.timer.call_after(SETTLE_SECONDS, self._follow_soon)

    def _follow_soon(self) -> None:
        self._c.call_soon(self._follow)  # in the loop's thread; the timer may have its own

    def _follow(self) -> None:
        """Consume the shards and the front of each queue that is consumed, and of no other."""
        self._is_asked = False
        consumer, consumed = self._c.task_consumer, self._consumed
        if consumer is None:
            return
        with consumer.frozen() if isinstance(consumer, LaneConsumer) else nullcontext():
            for name in [*self._shards.forget_cancelled(), *self._forget_cancelled()]:
                consumer.cancel_by_queue(name)
            for shard in self._shards.missing():
                consumed[shard.name] = shard
                consumer.add_queue(shard)
                consumer.consume()
            for front in self._usable(list(consumed.values())):
                self._made.add(front.name)
                consumed[front.name] = front
                consumer.add_queue(front)
                consumer.consume()

    def _forget_cancelled(self) -> list[str]:
        """Take out the fronts of ours whose queues aren't consumed any more; return them."""
        consumed = self._consumed
        gone = [name for name in self._made & consumed.keys() if behind(name) not in consumed]
        for name in gone:
            del consumed[name]
            self._made.discard(name)
        return gone

    @property
    def _consumed(self) -> dict[str, Any]:
        found: dict[str, Any] = self._c.app.amqp.queues.consume_from
        return found

    def _usable(self, queues: Iterable[Any]) -> Iterator[Any]:
        """Fronts that are missing, declared at the broker as their queues are."""
        is_part = Fair.knows_part(self._c.app)
        missing = [
            front_like(queue)
            for queue in queues
            if may_have_front(queue, is_part) and front_of(queue.name) not in self._consumed
        ]
        if not missing:
            return
        connection = self._c.connection
        if connection.transport.driver_type not in TRANSPORTS:
            return
        for front in missing:
            error = self._refusal(connection, front)
            if error is None:
                yield front
            elif front.name not in self._refused:
                self._refused.add(front.name)
                logger.warning(
                    "celery-fair: the queue %s can't be had (%r), so retries go to the back of "
                    "theirs; let this user declare and consume it, or set front_queues to false",
                    front.name,
                    error,
                )

    def _refusal(self, connection: Any, front: Any) -> Exception | None:
        """What the broker says to this queue, if it is no."""
        if connection.transport.driver_type == "redis":
            return internals.redis_refusal(connection, front.name)
        try:
            refused: list[Exception] = []
            adopt(connection, [front], refused.append)
        except connection.channel_errors as error:
            return error
        return refused[0] if refused else None
