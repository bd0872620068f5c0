"""What the workers and the broker have answered, as the live rules look at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery_fair.doctor.finding import named
from celery_fair.front import front_of
from celery_fair.policy.kinds import Kind


@dataclass(frozen=True, slots=True)
class Replies:
    """By node: reports of ``fair_status``, names of the queues consumed, and what else they say."""

    reports: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, frozenset[str]]
    stats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """``inspect stats``."""
    checkups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """``fair_checkup``, which older workers don't know."""
    asked: tuple[float, float] = (0.0, 0.0)
    """When the checkups were asked for and all answers were here, in epoch seconds."""
    unheard: frozenset[str] = frozenset()
    """Workers that have not said whether celery-fair is there, and answered something else."""
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Messages at the broker, by queue; queues that could not be counted are not there."""
    attended: frozenset[str] = frozenset()
    """Queues of which the broker itself knows a consumer, where it tells."""
    redis: Mapping[str, Any] | None = None
    """What ``INFO`` says, where the broker is a Redis that tells."""
    state: Mapping[str, Any] | None = None
    """What ``INFO`` says of the Redis that keeps jobs and requests, if the app has any."""
    parents: Mapping[Kind, Mapping[str, int]] = field(default_factory=dict)
    """How many messages at the broker have which task as their parent, as far as it tells."""
    unchecked: tuple[str, ...] = ()
    """What could not be asked, and why."""

    @property
    def is_answered(self) -> bool:
        """Whether any worker has answered."""
        return bool(self.reports or self.queues or self.stats)

    @property
    def consumed(self) -> frozenset[str]:
        """The queues that somebody consumes, or would if they were not paused."""
        paused = [
            queue
            for report in self.reports.values()
            for pause in report.get("steering", {}).get("paused", ())
            if (queue := pause["queue"]) is not None
        ]
        return self.attended.union(paused, map(front_of, paused), *self.queues.values())

    def late(self) -> dict[str, float]:
        """Workers whose interactive tasks wait for longer than promised, and for how long.

        The 95th percentile over the last minutes, of `ENOUGH` tasks at least, or how long the gate
        has been shut by now while batch has all the slots; against twice ``protect_wait_seconds``:
        under that the gate has done what it is for.
        """
        found: dict[str, float] = {}
        for node, report in self.reports.items():
            seconds = max(_has_waited(report), _waits_now(report))
            if seconds > 2 * setting(report, "protect_wait_seconds"):
                found[node] = seconds
        return found

    def buckets(self, kind: Kind, name: str) -> list[int]:
        """The sum of a histogram over the workers: ``waits`` or ``runs`` since they started."""
        every = [report["kinds"][kind][name]["buckets"] for report in self.reports.values()]
        return [sum(column) for column in zip(*every, strict=True)]


ENOUGH = 20
"""Tasks that a percentile is believed of."""


def _has_waited(report: Mapping[str, Any]) -> float:
    wait = report["kinds"]["interactive"]["wait_seconds"]
    return float(wait["p95"] or 0.0) if wait["count"] >= ENOUGH else 0.0


def _waits_now(report: Mapping[str, Any]) -> float:
    """A wait is counted as it ends; of those that go on, the gate tells."""
    gate, interactive = report["gate"], report["kinds"]["interactive"]
    waits = gate["mode"] == "protected" and interactive["backlog"] and not interactive["running"]
    return time.time() - gate["since"] if waits else 0.0


def setting(report: Mapping[str, Any], name: str) -> Any:
    """A worker's setting; a report names those that were set."""
    from celery_fair.settings import FairSettings

    found = report["settings"]
    return found[name] if name in found else FairSettings.model_fields[name].default


def by_value(values: Mapping[str, Any], show: Callable[[Any], str] = repr) -> dict[str, list[str]]:
    """Nodes by what they have, as it is shown; what most of them have first."""
    found: dict[str, list[str]] = {}
    for node, value in values.items():
        found.setdefault(show(value), []).append(node)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def shown(values: Mapping[str, list[str]]) -> str:
    """``0.2 on w1, w2; 0.3 on w3``, whatever the number of workers."""
    return named(f"{value} on {named(nodes)}" for value, nodes in values.items())
