"""What workers answer to ``fair_status``, as far as the commands look at it."""

from __future__ import annotations

from typing import Any

import celery_fair

NOW = 1_800_000_000.0


def wait(p50=None, p95=None, p99=None, count=0):
    return {"count": count, "p50": p50, "p95": p95, "p99": p99, "max": p99}


def kind(*queues, running=0, held=0, rate_limited=0, ready=(), wait_seconds=None) -> dict[str, Any]:
    """One kind's part; ``ready`` is a dict of queues, or None for unknown."""
    known = None if ready is None else dict(ready)
    return {
        "queues": list(queues),
        "running": running,
        "held": held,
        "rate_limited": rate_limited,
        "scheduled": 0,
        "credit": 4,
        "ready": known,
        "backlog": None if known is None else sum(known.values()) + held + rate_limited,
        "dispatched": 10,
        "given_back": 0,
        "wait_seconds": wait_seconds or wait(),
        "mean_run_seconds": 1.0,
    }


def report(interactive=None, batch=None, **changes) -> dict[str, Any]:
    """A worker of 8 slots whose gate has been open for a minute."""
    return {
        "version": celery_fair.__version__,
        "mode": "enforce",
        "started_at": NOW - 3600,
        "gate": {
            "mode": "open",
            "since": NOW - 60,
            "reason": "nothing interactive waits",
            "changes": 2,
            "blind": False,
        },
        "slots": {"total": 8, "reserve": 2},
        "ended_by_pool": [],
        "share": {"guaranteed": 0.2, "received": 0.5, "debt_seconds": 0.0, "owed": False},
        "fleet": {"workers": 1, "slots": 8},
        "last_batch_start": NOW - 3,
        "settings": {},
        "kinds": {
            "interactive": interactive or kind("celery"),
            "batch": batch or kind("celery.batch"),
        },
        **changes,
    }
