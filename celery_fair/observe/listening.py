"""Listening to the events of a cluster, over as many lost connections as there are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from celery_fair.internals import ask_workers
from celery_fair.observe.cluster import Cluster
from celery_fair.observe.events import WATCH_SECONDS

logger = logging.getLogger(__name__)

SAY_SECONDS: Final = WATCH_SECONDS / 3
RETRY_SECONDS: Final = 2.0
CONNECT_SECONDS: Final = 4.0


def watch(app: Any, connection: Any) -> None:
    """Ask all workers to tell their facts often, for a minute.

    ``connection`` is for writing, and may be kept: where it was lost, it is made anew once.
    """
    reach(connection)
    ask_workers(app, connection, "fair_watch")


def answers(app: Any, connection: Any, command: str, **options: Any) -> dict[str, Any]:
    """What each worker answers, over a connection that has been reached; empty if none does.

    ``options`` are those of `ask_workers`.
    """
    replies = ask_workers(app, connection, command, reply=True, **options)
    return {node: reply for answer in replies or () for node, reply in answer.items()}


class Listener(threading.Thread):
    """A thread that fills ``cluster`` from the events on the app's broker, until ``stop``.

    ``error`` is why nothing is heard just now, ``None`` while the broker is there.
    ``is_connected`` is false also until it is reached for the first time.
    """

    def __init__(
        self,
        app: Any,
        cluster: Cluster,
        on_event: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="celery-fair-listener", daemon=True)
        self.error: Exception | None = None
        self.is_connected = False
        self._app = app
        self._cluster = cluster
        self._on_event = on_event
        self._said_at = float("-inf")
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                with (
                    self._app.connection_for_read() as connection,
                    self._app.connection_for_write() as asking,
                ):
                    reach(connection)
                    self._listen(connection, asking)
            except Exception as error:
                if self.error is None:
                    logger.warning(
                        "celery-fair: no events, the broker can't be reached: %s",
                        str(error) or repr(error),
                    )
                self.error, self.is_connected = error, False
                self._stopped.wait(RETRY_SECONDS)

    def _listen(self, connection: Any, asking: Any) -> None:
        # Not '#': where workers send task events, there may be thousands a second.
        receiver = self._app.events.Receiver(
            connection, handlers={"*": self._hear}, routing_key="worker.#"
        )
        receiver.connect_max_retries = 1
        receiver.on_iteration = lambda: self._iterate(receiver, asking)
        self._said_at = float("-inf")
        receiver.capture(wakeup=False)

    def _iterate(self, receiver: Any, asking: Any) -> None:
        """Between two looks at the broker, a second apart at the most."""
        receiver.should_stop = self._stopped.is_set()
        if monotonic() - self._said_at >= SAY_SECONDS:
            self._said_at = monotonic()
            watch(self._app, asking)
        self.error, self.is_connected = None, True

    def _hear(self, event: Any) -> None:
        if self._cluster.hear(event, monotonic()):
            self._on_event()

    def stop(self) -> None:
        """End it, within a second or two."""
        self._stopped.set()


def reach(connection: Any) -> None:
    """Connect, or raise within some seconds: the first use of a connection would try for ever.

    A Redis that is there and answers nothing (stopped, or swapping) is waited for as long. What
    blocks, BRPOP and a subscription, is read when it has come, and knows no such end.
    """
    if connection.transport.driver_type == "redis":  # which has no time limit of its own
        bound = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": CONNECT_SECONDS}
        connection.transport_options = {**bound, **connection.transport_options}
    connection.ensure_connection(max_retries=1, interval_start=0.5, timeout=CONNECT_SECONDS)
