"""Shard queues: ``<queue>.shard-03`` beside a queue, consumed by the same workers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kombu import Exchange, Queue

SHARD: Final = ".shard-"

#: Attributes of a ``kombu.Queue`` that its shards and its front have too.
COPIED: Final = (
    "consumer_arguments",
    "durable",
    "no_ack",
    "message_ttl",
    "max_length",
    "max_length_bytes",
    "max_priority",
)

_NAME: Final = re.compile(r"(.+)\.shard-\d\d")


def shard_of(queue: str, index: int) -> str:
    """Return the name of a shard of ``queue``; they are counted from 0."""
    return f"{queue}{SHARD}{index:02d}"


def shards_of(queue: str, number: int) -> Iterator[str]:
    """The names of the first ``number`` shards of ``queue``."""
    return (shard_of(queue, index) for index in range(number))


def is_shard(queue: str) -> bool:
    """Whether that is the name of a shard; it has neither shards nor a front of its own."""
    return SHARD in queue and _NAME.fullmatch(queue) is not None


def home_of(queue: str) -> str:
    """Return the queue that a shard belongs to; any other is its own."""
    found = _NAME.fullmatch(queue) if SHARD in queue else None
    return queue if found is None else found[1]


def without_shards(queues: Iterable[str]) -> list[str]:
    """Return the queues but for the shards of others among them."""
    names = list(queues)
    known = set(names)
    return [name for name in names if home_of(name) == name or home_of(name) not in known]


def shard_like(queue: Any, name: str) -> Any:
    """Return a shard of a ``kombu.Queue``: declared as it is, with an exchange of its own.

    The exchange of ``queue`` may reach others by a pattern that the name of a shard meets too.
    """
    arguments = dict(queue.queue_arguments or {})
    if "x-dead-letter-exchange" in arguments:  # a dead message keeps the key that it had
        arguments.setdefault("x-dead-letter-routing-key", queue.routing_key or queue.name)
    exchange = Exchange(
        name,
        type=queue.exchange.type,
        durable=queue.exchange.durable,
        delivery_mode=queue.exchange.delivery_mode,
    )
    return Queue(
        name,
        exchange,
        name,
        queue_arguments=arguments or None,
        **{attribute: getattr(queue, attribute) for attribute in COPIED},
    )
