"""The facts of a made-up worker, as its events carry them."""

from __future__ import annotations

from typing import Any

from celery_fair.observe.counts import BOUNDS
from celery_fair.observe.reading import Source


def histogram(*seconds_and_counts: tuple[float, int]) -> dict[str, Any]:
    """Counts under these bounds; a bound that is none of `BOUNDS` is the last bucket."""
    found = dict(seconds_and_counts)
    return {
        "buckets": [found.pop(bound, 0) for bound in BOUNDS] + [sum(found.values())],
        "sum": float(sum(seconds * count for seconds, count in seconds_and_counts)),
    }


def kind(*queues: str, **changes: Any) -> dict[str, Any]:
    return {
        "queues": list(queues),
        "queues_left_out": 0,
        "running": 0,
        "held": 0,
        "rate_limited": 0,
        "uncleared": 0,
        "scheduled": 0,
        "credit": 4,
        "tenants": None,
        "source_available": True,
        "backlog": 0,
        "ready": {},
        "ready_left_out": 0,
        "dispatched": 0,
        "given_back": 0,
        "would_have_held": 0,
        "finished": {},
        "dropped": {},
        "waits": histogram(),
        "runs": histogram(),
        "slot_seconds": 0.0,
        "mean_run_seconds": 0.0,
        **changes,
    }


def facts(interactive: Any = None, batch: Any = None, **changes: Any) -> dict[str, Any]:
    """A worker of 8 slots that has just started."""
    return {
        "version": "0.1.0",
        "mode": "enforce",
        "started_at": 1_800_000_000.0,
        "gate": {"mode": "open", "changes": {"open": {}, "protected": {}}, "seconds": {},
                 "blind": False},
        "slots": {"total": 8, "reserve": 4, "batch_ceiling": 8, "guaranteed_to_batch": 2,
                  "audited": 0, "idle_seconds": {}},
        "share": {"guaranteed": 0.2, "received": None, "debt_seconds": 0.0, "owed": False},
        "fleet": {"workers": 1, "slots": 8, "in_sight": True},
        "engine": {"probed": False, "pressure": None, "detail": "", "queueing": False,
                   "unknown": False, "age_seconds": None, "failing": "", "failures": 0},
        "clearing": {"set": False, "waiting": {}, "places": {}, "away": False,
                     "away_seconds": None, "outages": 0, "lost": 0, "returned": {},
                     "hook": {"set": False, "answers": {}, "stuck": 0, "delayed": 0}},
        "resources": {"set": False, "unknown": False, "age_seconds": None, "of": [], "left_out": 0},
        "last_batch_start": None,
        "sensor": {"available": True, "reads": 0, "failures": 0, "latency_seconds": 0.0},
        "clock_skew_clamps": 0,
        "headers": {"missing": 0, "unreadable": 0},
        "steering": {"paused": [], "draining": None},
        "retries": {"tokens": 10.0, "delayed": 0, "refused": 0},
        "yielding": {
            "asked": 0, "withdrawn": 0, "reactions": 0, "slots_back": 0,
            "reaction_seconds": 0.0, "slot_back_seconds": 0.0, "slowest_slot_seconds": 0.0,
        },
        "observer_failures": 0,
        "recording": {"where": None, "sample": None, "written": 0, "lost": 0, "failures": 0},
        "kinds": {"interactive": interactive or kind("celery"),
                  "batch": batch or kind("celery.batch")},
        **changes,
    }  # fmt: skip


def resource(name: str = "openai", **changes: Any) -> dict[str, Any]:
    kinds = {"interactive": 0, "batch": 0}
    return {
        "name": name, "max_running": 8, "running": {**kinds, "batch": 3}, "waiting": kinds,
        "requests_left": None, "tokens_left": -12.5, "rate": 0.5, "slowed_seconds": 4.0, **changes,
    }  # fmt: skip


def task(name: str, *, of: str = "batch", wait=0.0, run=0.0, **outcomes: int) -> dict[str, Any]:
    return {
        "kind": of, "task": name, "outcomes": outcomes,
        "waits": sum(outcomes.values()), "wait_seconds": wait, "run_seconds": run,
    }  # fmt: skip


def source(*tasks: dict[str, Any], **changes: Any) -> Source:
    return Source(facts(**changes), tasks)
