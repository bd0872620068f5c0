"""kombu's consumers and virtual transports: read in kombu 5.5.2 to 5.7.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kombu import Producer


def is_virtual(channel: Any) -> bool:
    """Whether prefetching happens in this process, through ``channel.qos.can_consume``."""
    return hasattr(channel, "qos") and hasattr(channel.qos, "can_consume")


def gate_channel(channel: Any, room: Callable[[], int]) -> None:
    """Let ``room`` decide how many more messages ``channel`` may take.

    Set on the instance, and again for each new channel, so that it replaces the wrapper of
    ``worker_disable_prefetch`` (which counts *all* reserved requests) and never stacks.
    """
    channel.qos.can_consume = lambda: room() > 0
    channel.qos.can_consume_max_estimate = lambda: max(room(), 0)


def queue_size(channel: Any, queue: str) -> int:
    """Messages ready in a virtual queue, where asking costs no round trip."""
    return int(channel._size(queue))


def ready_now(channel: Any, queue: str) -> int:
    """Messages ready in a queue, asked and waited for."""
    if hasattr(channel, "_size"):  # a virtual one
        return int(channel._size(queue))
    return int(channel.queue_declare(queue, passive=True).message_count)


def polling_interval(connection: Any) -> float | None:
    """Seconds between two looks of a transport that polls; ``None`` where it is woken."""
    if connection.transport.driver_type in ("redis", "amqp"):
        return None
    return float(getattr(connection.transport, "polling_interval", None) or 1.0)


def goes_back_alone(message: Any) -> bool:
    """Whether giving a message back reaches its own queue only.

    A virtual channel publishes it anew, to *every* queue that its exchange and key are bound to.
    """
    info = message.delivery_info
    return len(message.channel._lookup(info["exchange"], info["routing_key"])) == 1


def send_command(
    mailbox: Any, channel: Any, command: str, arguments: Any, destination: list[str] | None
) -> None:
    """Send a remote-control command, and wait for nothing.

    ``Control.broadcast`` would declare the exchange, take a connection from a pool, and make a lost
    one anew: in a worker's loop that is none of its business.
    """
    message = {
        "method": command,
        "arguments": arguments,
        "destination": destination,
        "pattern": None,
        "matcher": None,
    }
    if is_virtual(channel):  # where that asks nobody, and a fanout is known by it
        mailbox.exchange.bind(channel).declare()
    Producer(channel, auto_declare=False).publish(
        message,
        exchange=mailbox.exchange.name,
        headers={"clock": mailbox.clock.forward(), "expires": 0},
        serializer=mailbox.serializer,
        delivery_mode=1,
    )


def is_redelivered(message: Any) -> bool:
    """Whether the broker has given this message out before: RabbitMQ and Redis tell."""
    return bool((message.delivery_info or {}).get("redelivered"))


def is_connection_lost(message: Any, error: Exception) -> bool:
    """Whether an error is the end of a message's connection, and no refusal of its broker."""
    return isinstance(error, message.channel.connection.client.connection_errors)


def return_to_broker(message: Any) -> None:
    """Give an unacknowledged message back, to the *front* of its queue where there is a choice.

    On Redis ``requeue`` pushes to the end that is read last, ``restore_by_tag`` to the one that is
    read first. RabbitMQ puts a requeued message back where it was.
    """
    qos: Any = getattr(message.channel, "qos", None)
    if not hasattr(qos, "restore_by_tag"):
        message.requeue()
        return
    qos.restore_by_tag(message.delivery_tag)
    qos._quick_ack(message.delivery_tag)
    message._state = "REQUEUED"


def renew_default_channel(connection: Any) -> Any:
    """Give ``connection`` another default channel, and return it; the last one stays open.

    Messages that came by the last one are acknowledged there.
    """
    connection._default_channel = None
    return connection.default_channel


def active_queues(consumer: Any) -> list[str]:
    """The names of the queues that ``consumer`` was asked to consume from."""
    return list(consumer._active_tags)
