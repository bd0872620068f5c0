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
        return {"error": f"plain Celery, since {_reason(state.app)}"}
    return report(scheduler)


def _reason(app: Any) -> str:
    from celery_fair.app import Fair

    fair = Fair.of(app)
    if fair is None:
        return "its app was given no Fair(app)"
    if not fair.settings.enabled:
        return "the setting `enabled` is false"
    return "its Celery or kombu lacks what celery-fair leans on, as its log says in full"
