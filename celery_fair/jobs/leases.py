"""Renews what the chunks of this process have claimed, while an item may take minutes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from celery_fair.errors import StateAway

logger = logging.getLogger(__name__)

#: After this time without a sign of its worker, a claim's items are given to another, in seconds.
LEASE_SECONDS: Final = 30.0
RENEW_SECONDS: Final = LEASE_SECONDS / 3


class Leases:
    """One thread a process, begun with its first chunk; it sleeps while nothing is claimed.

    In the process that runs the items, and not in the worker's main one: so what is renewed is what
    really runs, in every pool. An item that holds the interpreter's lock, or a green pool's loop,
    for longer than the lease is taken for lost.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._held: dict[object, tuple[Callable[[], bool], Callable[[], None]]] = {}
        self._lock = threading.Lock()
        self._any = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @contextmanager
    def held(self, renew: Callable[[], bool], lost: Callable[[], None]) -> Iterator[None]:
        """Call ``renew`` every third of a lease, and ``lost`` once if that says False."""
        if self._pid != os.getpid():  # a fork has copied the books, and not the thread
            self._reset()
        key = object()
        with self._lock:
            self._held[key] = renew, lost
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="celery-fair-leases", daemon=True
                )
                self._thread.start()
        self._any.set()
        try:
            yield
        finally:
            self._drop(key)

    def _drop(self, key: object) -> None:
        with self._lock:
            self._held.pop(key, None)
            if not self._held:
                self._any.clear()

    def _run(self) -> None:
        pause = threading.Event()
        while True:
            self._any.wait()
            pause.wait(RENEW_SECONDS)
            self.renew()

    def renew(self) -> None:
        """Renew all that is held; one that can't be asked for now is asked for again later."""
        with self._lock:
            held = list(self._held.items())
        for key, (renew, lost) in held:
            try:
                if not renew():
                    self._drop(key)
                    lost()
            except StateAway:
                continue
            except Exception:
                logger.debug("celery-fair: a chunk's lease was not renewed", exc_info=True)


#: Of this process.
leases: Final = Leases()
