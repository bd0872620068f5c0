"""What the events of many workers say together: for the exporter, Flower and ``fair top``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from celery_fair.observe.events import TYPE

WORKERS: Final = 10_000
"""No more of them are kept; whoever may publish events may invent names."""
TASKS: Final = 1_000
"""Names of tasks kept of one worker."""
MISSED: Final = 3
"""Events that may be missing before a worker counts as gone."""
GRACE_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 3600.0
"""From one event to the next; a worker that names a longer time is none."""


@dataclass(slots=True)
class Heard:
    """The last word of one worker; times are the listener's own clock."""

    facts: Mapping[str, Any]
    seen_at: float
    every_seconds: float
    tasks: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def is_alive(self, now: float) -> bool:
        return now - self.seen_at <= MISSED * self.every_seconds + GRACE_SECONDS


class Cluster:
    """The workers heard of, by node name. ``hear`` every event; it takes what is ours."""

    def __init__(self) -> None:
        self.workers: dict[str, Heard] = {}
        self.unreadable = 0
        """Events that could not be understood: another version's, or nobody's."""
        self.lost = 0
        """Workers that fell silent without saying that they stop."""

    def hear(self, event: Mapping[str, Any], now: float) -> bool:
        """Take in an event; whether it was a worker's facts. Never raises."""
        kind, name = event.get("type"), event.get("hostname")
        if not isinstance(name, str):
            return False
        if kind == "worker-offline":
            self.workers.pop(name, None)
        if kind != TYPE:
            return False
        facts, every = event.get("fair_facts"), event.get("fair_every")
        if not isinstance(facts, Mapping) or not _is_interval(every):
            self.unreadable += 1
            return False
        before = self.workers.get(name)
        if before is None and len(self.workers) >= WORKERS:
            self.forget(now)
            if len(self.workers) >= WORKERS:
                return False
        heard = Heard(facts, now, float(every))
        if before is not None and before.facts.get("started_at") == facts.get("started_at"):
            heard.tasks = before.tasks
        self._hear_tasks(heard, event.get("fair_tasks"))
        self.workers[name] = heard
        return True

    def _hear_tasks(self, heard: Heard, tasks: Any) -> None:
        for task in tasks if isinstance(tasks, list) else ():
            try:
                key = str(task["kind"]), str(task["task"])
            except (KeyError, TypeError, IndexError):
                self.unreadable += 1
                continue
            if key in heard.tasks or len(heard.tasks) < TASKS:
                heard.tasks[key] = task

    def forget(self, now: float) -> None:
        """Drop those that have been silent for too long."""
        for name, heard in list(self.workers.items()):
            if not heard.is_alive(now) and self.workers.pop(name, None) is not None:
                self.lost += 1

    def alive(self, now: float) -> dict[str, Heard]:
        """Those that are heard of, sorted by name."""
        self.forget(now)
        return dict(sorted(self.workers.copy().items()))


def _is_interval(every: object) -> TypeGuard[float]:
    return isinstance(every, (int, float)) and 0 < every <= LONGEST_SECONDS
