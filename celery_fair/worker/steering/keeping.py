"""Orders that were kept: read as the worker starts, and what is made here is written."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from celery_fair.errors import SettingsError
from celery_fair.state import Call, State, StateAway
from celery_fair.steering import Order
from celery_fair.steering.keeping import kept_orders, merge_call

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 5.0
MOST_RETRY_SECONDS: Final = 60.0
"""Between two tries, the first and the longest, while the state's Redis is away or refuses."""
STOP_SECONDS: Final = 1.0


class Keeping:
    """The worker's part of ``--keep``; an app without a Redis for its state has no such orders.

    Read at once and before anything is consumed, which costs half a second at the most; if that
    fails, by a thread, as is whatever is written: the loop waits for neither.
    """

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self._read: deque[list[Order]] = deque()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> list[Order]:
        """What is kept; nothing if that can't be read now, and then it is tried again."""
        try:
            return self._call(merge_call())
        except SettingsError:
            return []
        except StateAway:
            logger.warning(
                "celery-fair: orders that are kept can't be read now; this worker starts without "
                "them, and follows as soon as it has read them or another worker tells"
            )
            self._begin(merge_call())
            return []

    def found(self) -> list[Order]:
        """What was read since the last time."""
        found: list[Order] = []
        while self._read:
            found += self._read.popleft()
        return found

    def keep(self, orders: Iterable[Order]) -> None:
        """Write those that are to be kept."""
        kept = [order for order in orders if order.keep]
        if kept:
            self._begin(merge_call(kept))

    def stop(self) -> None:
        """The worker ends."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _begin(self, call: Call) -> None:
        self._thread = threading.Thread(
            target=self._try, args=[call], name="celery-fair-keeping", daemon=True
        )
        self._thread.start()

    def _try(self, call: Call) -> None:
        pause = RETRY_SECONDS
        while not self._ended.is_set():
            try:
                self._read.append(self._call(call))
                return
            except SettingsError:
                return
            except Exception as error:  # whatever it is, there is nobody else to try again
                logger.debug("celery-fair: orders can't be kept now: %r", error)
                self._ended.wait(pause)
                pause = min(2 * pause, MOST_RETRY_SECONDS)

    def _call(self, call: Call) -> list[Order]:
        return kept_orders(self._state().call(call, insist=True))
