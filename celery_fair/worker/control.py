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


@control_command(args=[("seconds", float), ("sample", float)], signature="<seconds> <sample>")
def fair_record(state: Any, seconds: float = 0.0, sample: float = 1.0, **_: Any) -> dict[str, Any]:
    """Record into the state's Redis when tasks come, wait and run, for a minute at the most."""
    from celery_fair.record.recording import ASKED_SECONDS
    from celery_fair.sim.trace import LEAST_SAMPLE

    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": f"plain Celery, since {why_plain(state.app)}"}
    try:
        seconds, sample = min(max(float(seconds), 0.0), ASKED_SECONDS), float(sample)
    except (TypeError, ValueError):
        return {"error": f"expected seconds and a sample, got {seconds!r:.80} and {sample!r:.80}"}
    if not LEAST_SAMPLE <= sample <= 1:
        return {"error": f"expected a sample from {LEAST_SAMPLE} to 1, got {sample!r}"}
    why = scheduler.recording.ask(seconds, sample)
    return {"ok": "recorded for a minute"} if why is None else {"error": why}


@inspect_command()
def fair_checkup(state: Any, **_: Any) -> dict[str, Any]:
    """What `fair doctor` wants to know: the clock, versions, and the longest tasks."""
    from celery_fair.worker.checkup import checkup

    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": f"plain Celery, since {why_plain(state.app)}"}
    scheduler.dispatcher.settle()
    return checkup(scheduler)


@inspect_command(args=[("before", int), ("most", int)], signature="[before [most]]")
def fair_observed(
    state: Any, before: int | None = None, most: int | None = None, **_: Any
) -> dict[str, Any]:
    """When tasks came, waited and ran in observe mode: 2,500 at a time, the latest first."""
    from celery_fair.worker.observing import observed

    for name, value in (("before", before), ("most", most)):
        if value is not None and type(value) is not int:
            return {"error": f"{name}: expected a number, got {type(value).__name__}"}
    scheduler = getattr(state.consumer.controller, "fair", None)
    if scheduler is None:
        return {"error": f"plain Celery, since {why_plain(state.app)}"}
    scheduler.dispatcher.settle()
    return observed(scheduler, before, most)


def why_plain(app: Any) -> str:
    """Why the worker of this app doesn't run celery-fair."""
    from celery_fair.app import Fair

    fair = Fair.of(app)
    if fair is None:
        return "its app was given no Fair(app)"
    if not fair.settings.enabled:
        return "the setting `enabled` is false"
    return "its Celery or kombu lacks what celery-fair leans on, as its log says in full"
