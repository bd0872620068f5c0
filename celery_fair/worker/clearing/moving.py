"""Sends a held message on, to another queue or for later: published first, acknowledged after that.

A worker that is killed in between leaves both: as with ``acks_late``, twice is better than never.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kombu import Exchange, Queue

from celery_fair.front import without_front
from celery_fair.headers import NAME, FairHeader
from celery_fair.policy.kinds import BATCH
from celery_fair.worker import internals
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.failing import not_amid_fork

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

KEPT: Final = ("correlation_id", "reply_to", "priority", "delivery_mode")
"""Properties of a message that it keeps. Not its expiration, which RabbitMQ counts anew."""


class Move(NamedTuple):
    """Where a message goes, and after how many seconds it is due there."""

    waiting: Waiting
    queue: str | None
    seconds: float
    error: str | None = None
    """Why it could not go."""


class Moving:
    """One thread that publishes by the app's own pool of connections; the loop settles after it."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._todo: queue.SimpleQueue[Move | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._done: deque[Move] = deque()
        self.wake: Callable[[], None] = lambda: None

    def move(self, move: Move) -> None:
        """Have it sent soon; it is among those that are `done` some day."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="celery-fair-moving", daemon=True
            )
            self._thread.start()
        self._todo.put(move)

    def done(self) -> list[Move]:
        """Take those that have been sent, or could not be."""
        found = []
        while self._done:
            found.append(self._done.popleft())
        return found

    def stop(self, seconds: float) -> None:
        """End after what is under way; the rest is unacknowledged, and so at the broker."""
        if self._thread is not None:
            self._todo.put(None)
            self._thread.join(seconds)

    def _run(self) -> None:
        for move in iter(self._todo.get, None):
            if not move.waiting.lane.alive:
                continue  # the broker has given it to another worker
            try:
                with not_amid_fork():
                    publish(self._fair, move)
            except Exception as error:
                move = move._replace(error=f"{type(error).__name__}: {error}")
            self._done.append(move)
            self.wake()


def publish(fair: Fair, move: Move) -> None:
    """Publish a message as it came, but for its destination and its time."""
    request = move.waiting.request
    message = internals.message_of(request)
    headers = _headers(fair, message.headers, move)
    properties = {name: message.properties[name] for name in KEPT if name in message.properties}
    with fair.app.producer_or_acquire() as producer:
        producer.publish(
            message.body,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            compression=message.headers.get("compression"),
            headers=headers,
            retry=False,
            **_destination(fair, request, move),
            **properties,
        )
        if producer.connection.transport.driver_type == "amqp":
            # It answers in order; without it nothing tells that nobody takes what was sent.
            producer.channel.queue_declare(_name(fair, request, move), passive=True)


def can_wait_at_broker(request: Any) -> bool:
    """Whether its own queue, and no other, is reached by the name that it came by."""
    info = internals.message_of(request).delivery_info or {}
    return not info.get("exchange") or info["exchange"] == info.get("routing_key")


def _headers(fair: Fair, before: Mapping[str, Any], move: Move) -> dict[str, Any]:
    at = time.time() + move.seconds
    header = FairHeader.read(before) or FairHeader(BATCH, at, at)
    if move.queue is not None:
        kind = fair.kind_of_queue(move.queue)
        header = header._replace(kind=kind, rerouted=header.rerouted + 1)
    headers = {**before}
    if move.seconds:
        headers["eta"] = datetime.fromtimestamp(at, timezone.utc).isoformat()
        header = header._replace(ready_at=at)
    headers[NAME] = header.as_line()
    return headers


def _name(fair: Fair, request: Any, move: Move) -> str:
    if move.queue is not None:
        return move.queue
    queue = internals.queue_of(request) or ""
    return queue if queue in fair.app.amqp.queues else without_front(queue)


def _destination(fair: Fair, request: Any, move: Move) -> dict[str, Any]:
    """By the queue's own name, whatever its exchange: by a topic others might get it too."""
    name = _name(fair, request, move)
    if move.queue is None:
        return {"exchange": Exchange(""), "routing_key": name}
    found: Queue = fair.app.amqp.queues[name]  # raises where task_create_missing_queues is False
    declare = [] if found.no_declare else [found]
    if found.exchange.type == "fanout":  # on Redis it has no queue, but a channel
        return {"exchange": found.exchange, "routing_key": found.routing_key, "declare": declare}
    return {"exchange": Exchange(""), "routing_key": name, "declare": declare}
