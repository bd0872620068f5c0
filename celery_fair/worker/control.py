"""Remote control: what ``celery inspect`` and ``celery -A proj fair`` ask a worker."""

from __future__ import annotations

from time import monotonic
from typing import Any

from celery.worker.control import control_command, inspect_command

import celery_fair.worker.ordering  # noqa: F401 - its commands are known from here


@inspect_command()
def fair_status(state: Any, **_: Any) -> dict[str, Any]:
    """Gate, slots, lanes, waits and share of celery-fair."""
    from celery_fair.observe.facts import collect

    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": f"plain Celery, since {why_plain(state.app)}"}
    scheduler.dispatcher.settle()
    return collect(scheduler)


@inspect_command(args=[("task_id", str)], signature="[task_id]")
def fair_explain(
    state: Any, task_id: str | None = None, recent: int = 0, **_: Any
) -> dict[str, Any]:
    """Where a task is here, and why each kind waits."""
    from celery_fair.worker.explaining import explain, explain_plain

    if task_id is not None and not isinstance(task_id, str):
        return {"error": f"task_id: expected a text, got {type(task_id).__name__}"}
    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        found = {} if task_id is None else explain_plain(task_id)
        return {"error": f"plain Celery, since {why_plain(state.app)}", **found}
    return explain(scheduler, task_id, recent)


@control_command()
def fair_watch(state: Any, **_: Any) -> dict[str, Any]:
    """Tell the facts of celery-fair in an event each second, for a minute."""
    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": f"plain Celery, since {why_plain(state.app)}"}
    scheduler.announcer.watch(monotonic())
    return {"ok": "watched for a minute"}


@inspect_command()
def fair_checkup(state: Any, **_: Any) -> dict[str, Any]:
    """What `fair doctor` wants to know: the clock, versions, and the longest tasks."""
    from celery_fair.worker.checkup import checkup

    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": f"plain Celery, since {why_plain(state.app)}"}
    scheduler.dispatcher.settle()
    return checkup(scheduler)


def why_plain(app: Any) -> str:
    """Why the worker of this app doesn't run celery-fair."""
    from celery_fair.app import Fair

    fair = Fair.of(app)
    if fair is None:
        return "its app was given no Fair(app)"
    if not fair.settings.enabled:
        return "the setting `enabled` is false"
    return "its Celery or kombu lacks what celery-fair leans on, as its log says in full"
