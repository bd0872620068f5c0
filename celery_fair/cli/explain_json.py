"""What ``fair explain --json`` writes; its words are stable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from celery_fair.cli.explained_kind import KindExplanation
from celery_fair.cli.explained_waits import Wait
from celery_fair.cli.explanation import Explanation
from celery_fair.policy.pace import Estimate


def of_task(found: Explanation) -> dict[str, Any]:
    """``reason`` is the first of ``waits_for``, which hinders it most; times are epoch seconds."""
    waited = found.task.get("waited")
    return {
        "id": found.id,
        "found": found.is_found,
        "place": found.place.value,
        "worker": found.worker,
        "task": {name: value for name, value in found.task.items() if name != "waited"},
        "waited": waited,
        "reason": found.waits[0].reason.value if found.waits else None,
        "waits_for": _waits(found.waits),
        "starts_in": _estimate(found.estimate, found.no_estimate),
        "result_backend": found.backend,
        "looked_at": found.looked,
        "perhaps": found.perhaps,
    }


def of_kind(found: KindExplanation) -> dict[str, Any]:
    """A kind in all workers; ``starts_in`` is of one that were published now."""
    return {
        "kind": found.kind,
        "workers": found.workers,
        "without_celery_fair": list(found.plain),
        "waiting": found.waiting,
        "ready": found.ready,
        "held": found.held,
        "running": found.running,
        "scheduled": found.scheduled,
        "rate_limited": found.rate_limited,
        "uncleared": found.uncleared,
        "oldest_ready_at": found.oldest_ready_at,
        "gate_changes": [
            {"worker": node, "at": at, "mode": mode, "cause": cause, "reason": reason}
            for node, (at, mode, cause, reason) in found.changes
        ],
        "reason": found.waits[0].reason.value if found.waits else None,
        "waits_for": _waits(found.waits),
        "starts_in": _estimate(found.estimate, found.no_estimate),
    }


def _waits(waits: Sequence[Wait]) -> list[dict[str, Any]]:
    return [
        {
            "reason": wait.reason.value,
            "text": wait.text,
            "since": wait.since,
            "workers": list(wait.workers),
        }
        for wait in waits
    ]


def _estimate(found: Estimate | None, unknown: str | None) -> dict[str, Any] | None:
    if found is not None:
        return asdict(found)
    return None if unknown is None else {"unknown": unknown}
