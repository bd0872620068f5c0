"""Jobs as they might be."""

from __future__ import annotations

from typing import Any

from celery_fair.jobs.progress import Band, Progress

NOW = 1_800_000_000.0


def progress(**changes: Any) -> Progress:
    """A job in the middle of its way, ten minutes old."""
    said: dict[str, Any] = {
        "id": "3f2a9c1e-0000-4000-8000-000000000000",
        "task": "shop.summarize",
        "kind": "batch",
        "state": "running",
        "reason": None,
        "submitted": 1000,
        "total": 1000,
        "submitting": False,
        "done": 412,
        "failed": 3,
        "running": 76,
        "rate": 120.0,
        "eta": Band(240.0, 360.0),
        "chunk_items": 38,
        "created_at": NOW - 600,
        "first_at": NOW - 590,
        "last_at": NOW - 1,
        "producer_at": NOW - 599,
        "asked_at": NOW,
    }
    return Progress(**{**said, **changes})
