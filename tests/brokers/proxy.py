"""A TCP proxy on loopback that can stop forwarding: a network that drops packets in silence."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator

CHUNK = 65_536
POLL_SECONDS = 0.02


class Proxy:
    """Forwards ``port`` to ``target`` on loopback, until told not to.

    While it is *silent* it still accepts, as a peer's kernel does, and nothing comes through in
    either direction. ``heal`` lets what was sent meanwhile through, as TCP's own retransmission
    would; with ``reset=True`` the old connections are closed instead, as a firewall that has
    forgotten them does.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._lock = threading.Lock()
        self._silent = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def silence(self) -> None:
        """Drop everything from now on, and refuse nothing."""
        with self._lock:
            self._silent = True

    def heal(self, *, reset: bool = False) -> None:
        """Forward again."""
        with self._lock:
            if reset:
                for one in list(self._pairs):
                    self._close(one)
            self._silent = False

    @contextlib.contextmanager
    def silent(self, *, reset: bool = False) -> Iterator[None]:
        """Silent inside the block."""
        self.silence()
        try:
            yield
        finally:
            self.heal(reset=reset)

    def close(self) -> None:
        self._ended = True
        self._thread.join(10)
        with self._lock:
            for one in list(self._pairs):
                self._close(one)
        self._listener.close()

    # the thread

    def _run(self) -> None:
        while not self._ended:
            with self._lock:
                readable = self._readable()
            if not readable:
                continue
            with self._lock:
                for one in readable:
                    self._forward(one)

    def _readable(self) -> list[socket.socket]:
        """Who has something to say; nobody who can be heard, while it is silent."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            for one in () if self._silent else self._pairs:
                selector.register(one, selectors.EVENT_READ)
            return [key.fileobj for key, _ in selector.select(POLL_SECONDS)]  # type: ignore[misc]

    def _forward(self, one: socket.socket) -> None:
        if one is self._listener:
            self._accept()
        elif one in self._pairs and not self._silent:
            try:
                data = one.recv(CHUNK)
                if data:
                    self._pairs[one].sendall(data)
                    return
            except OSError:
                pass
            self._close(one)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            client.close()
            return
        self._pairs[client], self._pairs[server] = server, client

    def _close(self, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        for end in (one, other):
            if end is not None:
                self._pairs.pop(end, None)
                end.close()
