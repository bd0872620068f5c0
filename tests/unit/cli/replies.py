"""What workers answer to ``fair_status``, as far as the commands look at it."""

from __future__ import annotations

from typing import Any

import celery_fair
from celery_fair.observe.counts import BOUNDS

NOW = 1_800_000_000.0


def wait(p50=None, p95=None, p99=None, count=0):
    return {"count": count, "p50": p50, "p95": p95, "p99": p99, "max": p99}


def histogram(**counts):
    """``histogram(s30=4)``: four durations in the bucket that ends at 30 s."""
    buckets = [0] * (len(BOUNDS) + 1)
    for name, number in counts.items():
        buckets[BOUNDS.index(float(name[1:]))] += number
    return {"buckets": buckets, "sum": 0.0}


def kind(
    *queues, running=0, held=0, rate_limited=0, uncleared=0, ready=(), wait_seconds=None, **changes
) -> dict[str, Any]:
    """One kind's part; ``ready`` is a dict of queues, or None for unknown."""
    known = None if ready is None else dict(ready)
    return {
        "queues": list(queues),
        "running": running,
        "held": held,
        "rate_limited": rate_limited,
        "uncleared": uncleared,
        "scheduled": 0,
        "credit": 4,
        "ready": known,
        "backlog": (
            None if known is None else sum(known.values()) + held + rate_limited + uncleared
        ),
        "dispatched": 10,
        "given_back": 0,
        "wait_seconds": wait_seconds or wait(),
        "mean_run_seconds": 1.0,
        "waits": histogram(),
        "runs": histogram(),
        "finished": {},
        **changes,
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
            "changes": {"open": {"empty": 1}, "protected": {"backlog": 1}},
            "seconds": {"open": 3500.0, "protected": 100.0},
            "blind": False,
        },
        "slots": {"total": 8, "reserve": 2},
        "ended_by_pool": [],
        "sensor": {"available": True, "reads": 9, "failures": 0, "latency_seconds": 0.001},
        "clock_skew_clamps": 0,
        "share": {"guaranteed": 0.2, "received": 0.5, "debt_seconds": 0.0, "owed": False},
        "fleet": {"workers": 1, "slots": 8},
        "engine": {"probed": False},
        "last_batch_start": NOW - 3,
        "settings": {},
        "kinds": {
            "interactive": interactive or kind("celery"),
            "batch": batch or kind("celery.batch"),
        },
        **changes,
    }
