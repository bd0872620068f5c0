"""Facts of workers that don't exist, in the form of `celery_fair.observe.facts`."""

from __future__ import annotations

from typing import Any

import celery_fair
from celery_fair.observe.counts import BOUNDS

STARTED_AT = 1_800_000_000.0


def histogram(**buckets: int) -> dict[str, Any]:
    """``histogram(b5=3)``: three durations in the sixth bucket."""
    counts = [0] * (len(BOUNDS) + 1)
    for name, number in buckets.items():
        counts[int(name[1:])] = number
    return {"buckets": counts, "sum": 1.0}


def kind(*queues: str, ready: Any = (), waits: Any = None, **changes: Any) -> dict[str, Any]:
    known = None if ready is None else dict(ready)
    part = {
        "queues": list(queues),
        "queues_left_out": 0,
        "running": 0,
        "held": 0,
        "rate_limited": 0,
        "uncleared": 0,
        "scheduled": 0,
        "source_available": known is not None,
        "ready": known,
        "ready_left_out": 0,
        "dispatched": 0,
        "given_back": 0,
        "wait_seconds": {"count": 1, "p50": 0.01, "p95": 0.02, "p99": 0.03, "max": 0.03},
        "waits": waits or histogram(),
        **changes,
    }
    part["backlog"] = (
        None if known is None else sum(known.values()) + part["held"] + part["uncleared"]
    )
    return part


def facts(
    interactive: dict[str, Any] | None = None,
    batch: dict[str, Any] | None = None,
    *,
    mode: str = "open",
    slots: int = 8,
    idle: dict[str, float] | None = None,
    history: Any = (),
    **changes: Any,
) -> dict[str, Any]:
    """A worker of 8 slots, 2 of them in reserve."""
    return {
        "version": celery_fair.__version__,
        "mode": "enforce",
        "started_at": STARTED_AT,
        "gate": {
            "mode": mode,
            "since": STARTED_AT,
            "reason": "nothing interactive waits",
            "cause": "empty",
            "blind": False,
            "history": list(history),
        },
        "slots": {
            "total": slots,
            "reserve": 2,
            "batch_ceiling": slots - 2,
            "idle_seconds": idle or {"reserve": 0.0},
        },
        "ended_by_pool": [],
        "share": {"guaranteed": 0.2, "received": 0.3, "debt_seconds": 0.0, "owed": False},
        "last_batch_start": STARTED_AT,
        "kinds": {
            "interactive": interactive or kind("celery"),
            "batch": batch or kind("celery.batch"),
        },
        **changes,
    }


def event(name: str, told: Any, every: float = 1.0) -> dict[str, Any]:
    """The event that tells them, as it reaches a listener."""
    return {
        "type": "worker-fair",
        "hostname": name,
        "fair_facts": told,
        "fair_tasks": [],
        "fair_every": every,
    }
