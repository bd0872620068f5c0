"""What is asked for one answer, and the answer: plain values, shown as text or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from celery_fair.cli.explained_waits import Wait
from celery_fair.front import whole_of
from celery_fair.observe.place import Place
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.pace import Estimate

HERE: Final = (
    Place.RUNNING, Place.HELD, Place.TIMING_OUT, Place.RATE_LIMITED, Place.CLEARING,
    Place.SCHEDULED, Place.RECEIVED,
)  # fmt: skip
"""Where a worker has a task, the most telling first; after that it is at the broker, or over."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was asked for and came: replies of workers with celery-fair, and of those without."""

    reports: Mapping[str, Mapping[str, Any]]
    silent: Mapping[str, str] = field(default_factory=dict)
    """What workers say that run as plain Celery."""
    plain_tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plain_queues: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def serving(self, queue: str) -> dict[str, Mapping[str, Any]]:
        """The workers with celery-fair that consume a queue, a part of one as the queue."""
        name = whole_of(queue)
        parts = {
            node: [report["kinds"][kind] for kind in KINDS] for node, report in self.reports.items()
        }
        found = [node for node, two in parts.items() if any(name in one["queues"] for one in two)]
        if not found:  # those that have more queues than a reply has room for may be meant
            found = [
                node for node, two in parts.items() if any(one["queues_left_out"] for one in two)
            ]
        return {node: self.reports[node] for node in found}

    def plain_serving(self, queue: str) -> list[str]:
        return sorted(node for node, queues in self.plain_queues.items() if queue in queues)


@dataclass(slots=True)
class Explanation:
    """Where a task is, and why; what isn't known is None or empty. Times are epoch seconds."""

    id: str
    place: Place = Place.UNKNOWN
    worker: str | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    estimate: Estimate | None = None
    no_estimate: str | None = None
    backend: Mapping[str, Any] | None = None
    looked: list[str] = field(default_factory=list)
    perhaps: list[str] = field(default_factory=list)
    """Of one that is unknown, where at the broker it may be, and behind how many at the most."""

    @property
    def is_found(self) -> bool:
        return self.place is not Place.UNKNOWN

    @property
    def waits_still(self) -> bool:
        """Whether it is still to be started."""
        return self.place in (*HERE[1:], Place.BROKER, Place.UNACKNOWLEDGED)
