"""The exporter's replay of what observing workers have run: in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import ask
from celery_fair.cli.status_replay import replayed
from celery_fair.observe.counterfactual import Counterfactual, p95s
from celery_fair.observe.gathering import MOST_TASKS

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 300.0
ANSWER_SECONDS: Final = 2.0


class Replaying:
    """Asks the workers only while some of those heard of observe; one replay at a time."""

    def __init__(self, app: Any, modes: Callable[[], Iterable[str]]) -> None:
        self._app = app
        self._modes = modes
        self._next = 0.0
        self._thread: threading.Thread | None = None
        self.figures: Mapping[str, Mapping[str, float]] = {}

    def look(self, now: float) -> None:
        """Begin a replay if it is time for one."""
        if "observe" not in self._modes():
            self.figures, self._next = {}, 0.0
            return
        if now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = now + EVERY_SECONDS
        self._thread = threading.Thread(target=self._run, name="fair-replay", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            found = self._replay()
        except Exception as error:  # the broker is away, say: the metrics go on without
            logger.warning("celery-fair: no replay of what the workers have run: %s", error)
            found = None
        self.figures = p95s(found)

    def _replay(self) -> Counterfactual | None:
        replies = ask(self._app, "fair_status", timeout_seconds=ANSWER_SECONDS)
        return replayed(self._app, Answers.of(replies), MOST_TASKS, ANSWER_SECONDS)
