"""A channel and a consumer that note what is sent to RabbitMQ, in order."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

from amqp import spec
from kombu import Queue

Sent = tuple[Any, ...]


class FakeChannel:
    """The part of ``amqp.Channel`` that a window uses."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.callbacks: dict[str, Any] = {}
        self._callbacks: dict[Any, Any] = {}
        self._on_close = None
        client = SimpleNamespace(connection_errors=(ConnectionError,), channel_errors=(KeyError,))
        self.connection = SimpleNamespace(client=client)
        self.broken = False

    def send_method(self, method: Any, signature: str, arguments: tuple[Any, ...]) -> None:
        if self.broken:
            raise ConnectionError("reset by peer")
        assert method == spec.Basic.Qos
        self.sent.append(("qos", arguments[1], arguments[2]))

    def basic_cancel(self, tag: str, nowait: bool = False) -> None:
        if self.broken:
            raise ConnectionError("reset by peer")
        assert nowait, "waiting for cancel-ok would deliver messages inside the call"
        self.sent.append(("cancel", tag))

    def basic_ack(self, tag: int, multiple: bool = False) -> None:
        self.sent.append(("ack", tag))

    def basic_reject(self, tag: int, requeue: bool = False) -> None:
        self.sent.append(("reject", tag))

    def take(self) -> list[Sent]:
        """What was sent since the last look."""
        sent, self.sent = self.sent, []
        return sent


class FakeQueue:
    """A ``kombu.Queue`` bound to the channel."""

    def __init__(self, queue: Queue, channel: FakeChannel) -> None:
        self.queue = queue
        self.channel = channel

    def consume(self, tag: str, callback: Any, no_ack: Any = None, nowait: bool = False) -> None:
        assert nowait, "waiting for consume-ok would deliver messages inside the call"
        assert tag not in {sent[1] for sent in self.channel.sent if sent[0] == "consume"}
        self.channel.callbacks[tag] = callback
        self.channel.sent.append(("consume", tag))


class FakeConsumer:
    """The part of ``kombu.Consumer`` that a window uses, consuming from all its queues."""

    def __init__(self, *queues: Queue) -> None:
        self.channel = FakeChannel()
        self.queues = list(queues)
        self.no_ack = None
        self._queues = {queue.name: FakeQueue(queue, self.channel) for queue in queues}
        self._tags = count(1)
        self._active_tags: dict[str, str] = {}
        for queue in queues:
            self._add_tag(queue)
            self.channel.callbacks[self._active_tags[queue.name]] = self._receive_callback

    def _add_tag(self, queue: Any) -> str:
        queue = getattr(queue, "queue", queue)
        tag = self._active_tags[queue.name] = f"tag{next(self._tags)}"
        return tag

    def _receive_callback(self, message: Any) -> None:
        """Where messages would go."""
