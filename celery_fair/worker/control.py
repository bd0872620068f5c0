"""Remote control: what ``celery inspect`` and ``celery -A proj fair`` ask a worker."""

from __future__ import annotations

from typing import Any

from celery.worker.control import inspect_command


@inspect_command()
def fair_status(state: Any, **_: Any) -> dict[str, Any]:
    """Gate, slots, lanes, waits and share of celery-fair."""
    from celery_fair.worker.status import report

    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": "celery-fair is not active in this worker"}
    return report(scheduler)
