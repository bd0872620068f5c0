"""Replays of what observing workers have run, again and again: in a thread, for who shows them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from celery_fair.observe.counterfactual import Counterfactual, p95s

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 300.0
ANSWER_SECONDS: Final = 2.0


class Replaying:
    """One replay at a time, and none while no worker observes.

    ``replay`` asks the workers and replays what they tell; it may take seconds, and may raise.
    """

    def __init__(self, replay: Callable[[], Counterfactual | None]) -> None:
        self._replay = replay
        self._next = 0.0
        self._thread: threading.Thread | None = None
        self.found: Counterfactual | None = None

    @property
    def figures(self) -> Mapping[str, Mapping[str, float]]:
        """Its 95 % quantiles, see `p95s`."""
        return p95s(self.found)

    def look(self, modes: Collection[str], now: float) -> None:
        """Begin a replay if it is time for one; ``modes`` are those of the workers heard of."""
        if "observe" not in modes:
            self.found, self._next = None, 0.0
            return
        if now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = now + EVERY_SECONDS
        self._thread = threading.Thread(target=self._run, name="celery-fair-replay", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.found = self._replay()
        except Exception as error:  # the broker is away, say: the figures go on without
            logger.warning("celery-fair: no replay of what the workers have run: %s", error)
            self.found = None
