"""What workers answer to ``fair_explain``, as far as the commands look at it."""

from __future__ import annotations

from typing import Any

from celery_fair.policy.waiting import Reason

NOW = 1_800_000_000.0


def kind(*queues: str, why: Reason | None = None, **changes: Any) -> dict[str, Any]:
    return {
        "queues": list(queues), "queues_left_out": 0, "running": 0, "held": 0, "rate_limited": 0,
        "uncleared": 0, "scheduled": 0, "credit": 4, "backlog": 0, "ready": {}, "ready_left_out": 0,
        "mean_run_seconds": 2.0, "why": None if why is None else why.value,
        "since": None if why is None else NOW - 3.0, "oldest_ready_at": None,
        "started_a_second": None, "slots": 2, **changes,
    }  # fmt: skip


def report(
    batch: dict[str, Any] | None = None,
    interactive: dict[str, Any] | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A worker of 8 slots: 6 interactive tasks run and 2 batch ones, the gate is protected."""
    return {
        "version": "0.1.0", "mode": "enforce", "started_at": NOW - 3600, "stopping": False,
        "gate": {
            "mode": "protected", "since": NOW - 12, "cause": "backlog", "blind": False,
            "reason": "interactive backlog beyond free slots 43 > 16",
        },
        "slots": {"total": 8, "reserve": 2, "batch_ceiling": 2, "guaranteed_to_batch": 2},
        "engine": {"pressure": None, "detail": "", "queueing": False},
        "steering": {"paused": [], "draining": None},
        "kinds": {
            "interactive": interactive or kind("celery", running=6, backlog=43),
            "batch": batch or kind("celery.batch", running=2),
        },
        "record": {"tasks": 812, "tasks_forgotten": 3},
        "task": None,
        **changes,
    }  # fmt: skip


def task(place: str, **changes: Any) -> dict[str, Any]:
    """What a worker says of a batch task that it knows."""
    return {
        "place": place, "kind": "batch", "task": "shop.summarize", "id": "an-id",
        "queue": "celery.batch", "enqueued_at": NOW - 14, "pulled_at": NOW - 2,
        "started_at": None, "finished_at": None, "run_seconds": None, "outcome": None,
        "waited": None, "before": [], **changes,
    }  # fmt: skip


def pause(queue: str | None = None, kind: str = "batch") -> dict[str, Any]:
    return {
        "paused": [{"kind": kind, "queue": queue, "by": "ann@desk", "at": NOW - 60}],
        "draining": None,
    }
