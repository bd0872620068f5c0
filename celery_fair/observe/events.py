"""``worker-fair`` events: a worker's facts, told to whoever listens to the cluster's events.

They travel like Celery's heartbeats, so they reach `celery.events.state` and Flower without a
remote call. Every field begins with ``fair_``, since a field becomes an attribute there; and none
is a ``task-*`` event, since that would change a task's state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

logger = logging.getLogger(__name__)

TYPE: Final = "worker-fair"
UNWATCHED_SECONDS: Final = 10.0
WATCHED_SECONDS: Final = 1.0
WATCH_SECONDS: Final = 60.0
"""How long one word of a watcher lasts; they say it three times as often."""
EVENTS_A_SECOND: Final = 50
"""Of the whole fleet while it is watched; a tenth of it else. Every worker that gossips reads all
of them, as it does with heartbeats."""
TASKS: Final = 10
"""Names of tasks whose counts travel with one event; the next one has the next names."""

UNTOLD: Final = ("settings", "ended_by_pool")
"""Facts that are for those who ask this one worker."""


class Announcer:
    """Sends the facts of one worker: often while somebody watches, seldom else."""

    def __init__(
        self, collect: Callable[[], dict[str, Any]], tasks: Callable[[], list[dict[str, Any]]]
    ) -> None:
        self._collect = collect
        self._tasks = tasks
        self._next_task = 0
        self._watched_until = self._sent_at = float("-inf")
        self._failed = False

    def watch(self, now: float) -> None:
        """Somebody watches, for another `WATCH_SECONDS`."""
        self._watched_until = now + WATCH_SECONDS

    def every_seconds(self, workers: int, now: float) -> float:
        """The time from one event to the next in a fleet of so many."""
        if now < self._watched_until:
            return max(WATCHED_SECONDS, workers / EVENTS_A_SECOND)
        return max(UNWATCHED_SECONDS, workers / EVENTS_A_SECOND * 10)

    def tick(self, send: Callable[..., Any] | None, workers: int, now: float) -> None:
        """Send if it is time to; ``send`` is that of Celery's event dispatcher, if it has one."""
        every = self.every_seconds(workers, now)
        if send is None or now - self._sent_at < every:
            return
        self._sent_at = now
        try:
            send(TYPE, **self.event(every))
            self._failed = False
        except Exception as error:  # an event less harms nobody
            if not self._failed:
                logger.warning("celery-fair: its events can't be sent: %r", error)
            self._failed = True

    def event(self, every: float) -> Mapping[str, Any]:
        """The fields of one event."""
        facts = self._collect()
        for name in UNTOLD:
            facts.pop(name, None)
        return {"fair_facts": facts, "fair_tasks": self._some_tasks(), "fair_every": every}

    def _some_tasks(self) -> list[dict[str, Any]]:
        """The next few, so that a listener knows all of them after some events."""
        tasks = self._tasks()
        begin = self._next_task if self._next_task < len(tasks) else 0
        some = list(islice(tasks, begin, begin + TASKS))
        self._next_task = begin + len(some)
        return some
