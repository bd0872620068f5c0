"""A bounded look for one message at the broker; nothing is taken, and nothing waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from celery_fair.cli.looking_redis import RedisLook
from celery_fair.cli.remote import connection_to_broker
from celery_fair.cli.seen import Look
from celery_fair.cli.words import plural

QUEUES: Final = 100


def look_for(app: Any, id: str, queues: Sequence[str], seconds: float) -> Look:
    """Look for a task's message in these queues, for so long; raises what the client raises."""
    found = Look()
    with connection_to_broker(app, reading=True) as connection:
        driver = connection.transport.driver_type
        _bound(connection, driver, seconds)
        connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=seconds)
        with connection.channel() as channel:
            if driver == "redis":
                RedisLook(app, channel, id, found, seconds).run(queues[:QUEUES])
        if driver == "amqp":
            _count(connection, queues[:QUEUES], found)
    return found


def oldest_in(app: Any, queues: Sequence[str], seconds: float) -> float | None:
    """When the first in line of these queues was ready, in epoch seconds; where that can be seen.

    None where nothing waits, where no message says it, and on brokers that show none.
    """
    with connection_to_broker(app, reading=True) as connection:
        if connection.transport.driver_type != "redis":
            return None
        _bound(connection, "redis", seconds)
        connection.ensure_connection(max_retries=1, interval_start=0.1, timeout=seconds)
        with connection.channel() as channel:
            look = RedisLook(app, channel, "", Look(), seconds)
            return min(look.firsts(queues[:QUEUES]), default=None)


def _bound(connection: Any, driver: str, seconds: float) -> None:
    if driver == "redis":
        limits = {"socket_connect_timeout": seconds, "socket_timeout": seconds}
        connection.transport_options = {**limits, **connection.transport_options}


def _count(connection: Any, queues: Sequence[str], found: Look) -> None:
    """How many are ready; RabbitMQ closes the channel over a queue that isn't there."""
    for queue in queues:
        try:
            with connection.channel() as channel:
                found.lengths[queue] = channel.queue_declare(queue, passive=True).message_count
        except connection.channel_errors:
            continue
    number = plural(len(found.lengths), "queue")
    found.looked.append(f"the length of {number} (RabbitMQ shows no message)")
