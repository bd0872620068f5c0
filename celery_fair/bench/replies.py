"""Where probes tell that they ran: a queue of the bench's own, gone with its end.

Celery publishes a task's callback once the task has run. The callback of a probe goes to an
exchange, and by its key to this queue, which no worker consumes: what arrives is the fact that the
probe ran, on this process's clock. So plain workers tell it too, with no result backend and no
events, and no two clocks are compared. `amq.direct` is in every RabbitMQ: a callback that comes
when the bench is gone is dropped there, where an exchange of our own that is gone would cost the
worker its channel.
"""

from __future__ import annotations

import secrets
import socket
import threading
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from kombu import Exchange, Queue
from kombu.transport import virtual

from celery_fair.observe.listening import reach

EXCHANGE: Final = "amq.direct"
CALLBACK: Final = "celery.accumulate"
"""A task that each worker knows and that does nothing; it is never run."""
EXPIRE_SECONDS: Final = 60.0
"""Of the queue, where the bench was killed."""
DRAIN_SECONDS: Final = 0.25


class Replies(threading.Thread):
    """A thread that notes when which probe has told; ``error`` is why it hears no more."""

    def __init__(self, app: Any) -> None:
        super().__init__(name="celery-fair-bench", daemon=True)
        self.arrived: dict[str, tuple[float, float]] = {}
        """By the id of the probe: when it told (monotonic), and for how long it ran."""
        self.error: Exception | None = None
        self.started = threading.Event()
        self.name_of_queue = f"celery-fair.bench.{secrets.token_hex(8)}"
        self._app = app
        self._stopped = threading.Event()

    def callback(self) -> Any:
        """The signature that brings a probe's word here."""
        signature = self._app.signature(CALLBACK)
        return signature.set(
            exchange=EXCHANGE, routing_key=self.name_of_queue, serializer="json", ignore_result=True
        )

    def run(self) -> None:
        try:
            with self._app.connection_for_read() as connection:
                reach(connection)
                self._listen(connection)
        except Exception as error:
            self.error = error
        finally:
            self.started.set()

    def _listen(self, connection: Any) -> None:
        channel = connection.default_channel
        if isinstance(channel, virtual.Channel):  # kombu declares no `amq.…`, and these lack it
            channel.exchange_declare(exchange=EXCHANGE, type="direct", durable=True)
        queue = Queue(
            self.name_of_queue,
            Exchange(EXCHANGE, "direct"),
            routing_key=self.name_of_queue,
            durable=False,
            auto_delete=True,
            expires=EXPIRE_SECONDS,
        )(channel)
        try:
            with connection.Consumer(queue, on_message=self._take, no_ack=True):
                self.started.set()
                while not self._stopped.is_set():
                    with suppress(socket.timeout):
                        connection.drain_events(timeout=DRAIN_SECONDS)
        finally:
            with suppress(Exception):  # it is gone with its consumer, or with the connection
                queue.delete()

    def _take(self, message: Any) -> None:
        now = monotonic()
        probe = (message.headers or {}).get("parent_id")
        if isinstance(probe, str):
            self.arrived.setdefault(probe, (now, _run_seconds(message)))

    def stop(self) -> None:
        """End it, and its queue, within a moment."""
        self._stopped.set()
        if self.is_alive():
            self.join(DRAIN_SECONDS * 8)


def _run_seconds(message: Any) -> float:
    """What the probe has returned: for how long it ran; Celery's own task returns no number."""
    if message.content_type != "application/json":
        return 0.0
    try:
        ((returned, *_), *_) = message.payload
    except Exception:  # whoever may publish may send anything
        return 0.0
    return float(returned) if isinstance(returned, (int, float)) and returned >= 0 else 0.0
