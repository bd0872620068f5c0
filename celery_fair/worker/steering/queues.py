"""Stops consuming the queues that are paused, and goes on with them afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from celery_fair.app import Fair
from celery_fair.front import front_of, without_parts
from celery_fair.policy.kinds import Kind
from celery_fair.sharding.names import home_of, is_shard

logger = logging.getLogger(__name__)


class QueuePauses:
    """Cancels a queue as Celery's ``cancel_consumer`` does, so that no reconnect brings it back.

    What others ask meanwhile of such a queue is done when it is resumed: a queue that was added
    is then consumed, and one that was cancelled is not.
    """

    def __init__(self, c: Any) -> None:
        self._c = c
        self._paused: frozenset[str] = frozenset()
        self._to_add: dict[str, Callable[[], None]] = {}
        """What consumes each queue again that is not consumed since it is paused."""
        self._add, self._cancel = c.add_task_queue, c.cancel_task_queue
        c.add_task_queue = self._add_unless_paused
        c.cancel_task_queue = self._cancel_for_good

    @property
    def stopped(self) -> list[str]:
        """The queues that this worker would consume, were they not paused."""
        return sorted(self._to_add)

    def known(self) -> list[str]:
        """The queues that this worker consumes, or would."""
        return sorted({*self._consumed(), *self._to_add})

    def by_kind(self, kind_of_queue: Callable[[str], Kind]) -> dict[str, Kind]:
        """Those, but for fronts, each with its kind."""
        return {queue: kind_of_queue(queue) for queue in without_parts(self.known())}

    def keys(self) -> frozenset[str]:
        """The routing keys by which messages of the paused queues have come."""
        return frozenset(key for queue in self._paused for key in self.keys_of(queue))

    def keys_of(self, queue: str) -> set[str]:
        """The routing keys by which messages come from a queue, its front and its shards alone.

        Celery binds every queue that is declared without a key by the default one, which is also
        the default queue's name.
        """
        own = {queue, front_of(queue), *self._shards_of(queue)}
        others = set(self.known()) - self._paused - own
        shared = others | self._bound(others)
        return own | (self._bound(own) - shared)

    def _bound(self, names: Iterable[str]) -> set[str]:
        queues = self._c.app.amqp.queues
        return {key for name in names if name in queues and (key := queues[name].routing_key)}

    def pause(self, queues: Iterable[str]) -> None:
        """Have these paused, and no others, as soon as the loop comes to it."""
        self._paused = frozenset(queues)
        self._c.call_soon(self.follow)

    def connect(self) -> None:
        """A new connection is about to consume: not what is paused.

        What was resumed meanwhile has to wait for the loop: nobody could take its messages yet.
        """
        self._stop()
        if self._to_add.keys() - self._paused:
            self._c.call_soon(self.follow)

    def follow(self) -> None:
        """Consume what is to be consumed; in the loop."""
        if self._c.task_consumer is None:
            return  # the connection is lost; the next one begins with this
        self._stop()
        for queue in self._to_add.keys() - self._paused:
            self._keep(queue)  # first: the connection may be lost by what comes
            self._to_add.pop(queue)()

    def _stop(self) -> None:
        for queue in self._paused & self._consumed():
            self._to_add[queue] = partial(self._add, queue)
            for name in (queue, front_of(queue), *self._shards_of(queue)):
                if name in self._consumed():
                    self._cancel(name)

    def _shards_of(self, queue: str) -> list[str]:
        """The shards of a queue that this app knows: they are paused with it."""
        names, is_part = self._c.app.amqp.queues, Fair.knows_part(self._c.app)
        return [n for n in names if is_shard(n) and home_of(n) == queue and is_part(n)]

    def _keep(self, queue: str) -> None:
        """Have the next connection consume it too.

        Celery before 5.7 leaves what was cancelled out of its selection when it is added again.
        """
        queues = self._c.app.amqp.queues
        if queue in queues and queue not in self._consumed():
            queues.select_add(queues[queue])

    def _consumed(self) -> set[str]:
        return set(self._c.app.amqp.queues.consume_from)

    def _add_unless_paused(self, queue: str, *args: Any, **options: Any) -> None:
        if queue in self._paused:
            self._to_add[queue] = partial(self._add, queue, *args, **options)
            logger.warning("celery-fair: %s is paused; it is consumed once it is resumed", queue)
        else:
            self._add(queue, *args, **options)

    def _cancel_for_good(self, queue: str) -> None:
        self._to_add.pop(queue, None)
        self._cancel(queue)
