"""Asking the workers to tell their facts each second, while somebody looks."""

from __future__ import annotations

import logging
import threading
from typing import Any

from celery_fair.observe.listening import SAY_SECONDS, watch

logger = logging.getLogger(__name__)


class Watching:
    """Said again as long as somebody looks; a worker forgets it after a minute.

    Each time in a thread of its own: Flower's loop must not wait for a broker, nor its end.
    """

    def __init__(self) -> None:
        self._said_at = float("-inf")
        self._saying: threading.Thread | None = None
        self._failed = False

    def looked(self, app: Any, now: float) -> None:
        """Somebody has looked at figures."""
        busy = self._saying is not None and self._saying.is_alive()
        if busy or now - self._said_at < SAY_SECONDS:
            return
        self._said_at = now
        self._saying = threading.Thread(
            target=self._say, args=(app,), name="celery-fair-watch", daemon=True
        )
        self._saying.start()

    def _say(self, app: Any) -> None:
        try:
            with app.connection_for_write() as connection:
                watch(app, connection)
            self._failed = False
        except Exception as error:  # they tell their facts anyway, if less often
            if not self._failed:
                logger.warning("celery-fair: workers can't be asked to tell more: %r", error)
            self._failed = True
