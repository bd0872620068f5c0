"""Has a worker consume the shards of each queue that it consumes (``celery_fair.sharding``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from celery_fair.app import Fair
from celery_fair.sharding.names import home_of, is_shard
from celery_fair.worker import internals


class WorkerShards:
    """The shards of one ``Consumer``'s queues, which the app knows by name and declares.

    They follow their queue: whoever consumes it, by ``-Q`` or by ``add_consumer``, consumes them
    too, and whoever cancels it cancels them. A shard may still be named by itself, by ``-Q``, by
    ``-X`` or in order to cancel it: beside a queue of which some are named no others are added.
    """

    def __init__(self, c: Any) -> None:
        self._c = c
        self._taken: set[str] = set()

    def _is_shard(self, name: str) -> bool:
        """Whether it is one of the app's; a queue may be called so that is nobody's shard."""
        return is_shard(name) and Fair.knows_part(self._c.app)(name)

    def add_all(self) -> None:
        """Consume the shards of what is to be consumed, and of nothing else; before it begins."""
        self.forget_cancelled()
        queues = self._c.app.amqp.queues
        if not internals.has_selection(queues):  # by default all are; ``-X`` may have left one out
            for name in [name for name in queues.consume_from if self._is_shard(name)]:
                if home_of(name) not in queues.consume_from:
                    del queues.consume_from[name]
        consumed = queues.consume_from
        named = {home_of(name) for name in consumed if self._is_shard(name)}.intersection(consumed)
        self._taken.update(n for n in queues if is_shard(n) and home_of(n) in named)
        for shard in self.missing():
            queues.consume_from[shard.name] = shard

    def missing(self) -> Iterator[Any]:
        """Shards that are to be consumed and are not yet; not those that somebody has cancelled."""
        queues = self._c.app.amqp.queues
        consumed = queues.consume_from
        for name, shard in list(queues.items()):
            if not self._is_shard(name) or home_of(name) not in consumed:
                continue
            if name not in consumed and name not in self._taken:
                yield shard
            self._taken.add(name)

    def forget_cancelled(self) -> list[str]:
        """Take out the shards of queues that aren't consumed any more; return them."""
        consumed = self._c.app.amqp.queues.consume_from
        left = [name for name in self._taken if home_of(name) not in consumed]
        self._taken.difference_update(left)
        return [name for name in left if consumed.pop(name, None) is not None]
