"""Why a kind waits in each worker, and when one published now would start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from celery_fair.cli.explained_waits import NEVER, Wait, paces, reasons, untold_pauses
from celery_fair.cli.explanation import Said
from celery_fair.observe.total import ready_by_queue
from celery_fair.policy.pace import Estimate, estimate
from celery_fair.policy.waiting import Reason

CHANGES: Final = 3
"""Of all gates that are told."""


@dataclass(frozen=True, slots=True)
class KindExplanation:
    """One kind in all workers that answer; times are epoch seconds."""

    kind: str
    workers: int
    ready: int | None
    """Messages at the broker, None where nobody can count them."""
    held: int
    running: int
    scheduled: int
    rate_limited: int
    uncleared: int
    """Held for a place, a budget or the hook."""
    oldest_ready_at: float | None
    """Of those held, and of the first in line at a broker that shows it."""
    waits: Sequence[Wait]
    estimate: Estimate | None
    no_estimate: str | None
    changes: Sequence[tuple[str, Sequence[Any]]]
    """The last changes of gates, the latest first: the worker, and when, to what, cause, why."""
    plain: Sequence[str]
    """Workers without celery-fair: they tell nothing of it."""

    @property
    def waiting(self) -> int:
        return (self.ready or 0) + self.held + self.rate_limited + self.uncleared


def explain_kind(
    kind: str, said: Said, now: float, first_ready_at: float | None = None
) -> KindExplanation:
    """Put together what the workers that serve a kind say of it."""
    serving = {
        node: report for node, report in said.reports.items() if report["kinds"][kind]["queues"]
    }
    parts = [report["kinds"][kind] for report in serving.values()]
    waits = reasons(kind, None, serving, now)
    waits += untold_pauses(kind, waits, said.reports, now)
    if not serving and not waits:
        waits = [Wait(Reason.NO_CONSUMER, f"no worker with celery-fair serves {kind}")]
    ready, held = _ready(parts) if parts else None, sum(part["held"] for part in parts)
    stopped = next((NEVER[wait.reason] for wait in waits[:1] if wait.reason in NEVER), None)
    found = None if stopped else estimate((ready or 0) + held, paces(kind, list(serving.values())))
    return KindExplanation(
        kind,
        len(serving),
        ready,
        held,
        sum(part["running"] for part in parts),
        sum(part["scheduled"] for part in parts),
        sum(part["rate_limited"] for part in parts),
        sum(part.get("uncleared", 0) for part in parts),
        min(
            (at for at in (first_ready_at, *(p["oldest_ready_at"] for p in parts)) if at),
            default=None,
        ),
        waits,
        found,
        stopped or (None if found else "none of its kind has ended there yet"),
        _changes(serving),
        sorted(said.silent),
    )


def _changes(serving: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Sequence[Any]]]:
    every = [(node, one) for node, report in serving.items() for one in report.get("changes", ())]
    return sorted(every, key=lambda change: -change[1][0])[:CHANGES]


def _ready(parts: Sequence[Mapping[str, Any]]) -> int | None:
    """What waits at the broker, each queue once: all who consume it count the same messages."""
    ready = ready_by_queue(parts)
    if ready is None:
        return None
    return sum(ready.values()) + max((part["ready_left_out"] for part in parts), default=0)
