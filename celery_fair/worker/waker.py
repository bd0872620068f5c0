"""Wakes the worker's loop: from a pool's thread, and from the loop itself between two tasks."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any


class Waker:
    """A socket pair that a poller watches; ``wake`` is safe from any thread or greenlet.

    kombu's ``Hub.call_soon`` wakes the hub only from another thread, and only since 5.7: called
    within the loop it may wait out the poll, one second, with a slot idle.
    """

    def __init__(self, awake: Callable[[], None]) -> None:
        self._awake = awake
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._pending = False

    def fileno(self) -> int:
        return self._reader.fileno()

    def register(self, hub: Any) -> None:
        """Watch the socket; at each start of the loop, since ``Hub.reset`` drops it."""
        hub.add_reader(self._reader, self.on_readable)

    def wake(self) -> None:
        """Have the callback called by the loop, soon and once."""
        if not self._pending:
            self._pending = True
            with contextlib.suppress(OSError):  # closed: the worker is on its way out
                self._writer.send(b"\0")

    def on_readable(self) -> None:
        # Drain first: cleared first, a wake in between would be drained with the flag left set.
        with contextlib.suppress(OSError):
            self._reader.recv(64)
        self._pending = False
        self._awake()

    def drain(self) -> None:
        """Take a wake-up without calling back, where the woken loop does the work by itself."""
        if self._pending:
            with contextlib.suppress(OSError):
                self._reader.recv(64)
            self._pending = False

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
