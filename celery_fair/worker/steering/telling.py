"""Sends remote-control commands to other workers, over the connection that the worker has."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from celery_fair.worker import internals

logger = logging.getLogger(__name__)


class Telling:
    """One channel a connection, made when there is something to tell; greenlets have another.

    In the loop's thread, and never from a command of remote control itself: to make the channel is
    to wait for the broker, which may send messages meanwhile.
    """

    def __init__(self, c: Any) -> None:
        self._c = c
        self._connection: Any = None
        self._channel: Any = None

    def publish(
        self, command: str, arguments: Mapping[str, Any], destination: list[str] | None
    ) -> None:
        """Send a command soon; if the connection is lost by then, somebody will ask again."""
        c = self._c
        if not internals.has_remote_control(c):
            return
        if getattr(c.pool, "is_green", False):
            # Its loop may be at the broker for two seconds before it does what it is asked to.
            c.pool.spawn_n(self._broadcast, command, dict(arguments), destination)
        else:
            c.call_soon(partial(self._publish, command, dict(arguments), destination))

    def _broadcast(self, command: str, arguments: Any, destination: list[str] | None) -> None:
        """In a greenlet of its own, over a connection of the app's, for as long as it takes."""
        try:
            self._c.app.control.broadcast(command, arguments=arguments, destination=destination)
        except Exception as error:
            logger.debug("celery-fair: orders can't be told now: %r", error)

    def _publish(self, command: str, arguments: Any, destination: list[str] | None) -> None:
        connection = self._c.connection
        if connection is None:
            return
        try:
            if connection is not self._connection:
                self._channel, self._connection = connection.channel(), connection
            mailbox = self._c.app.control.mailbox
            internals.send_command(mailbox, self._channel, command, arguments, destination)
        except Exception as error:  # the loop finds out by itself that the connection is lost
            self._connection = None
            logger.debug("celery-fair: orders can't be told now: %r", error)
