"""What a worker knows of the engine behind its tasks, as facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery_fair.policy.view import PolicyView

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler


def engine_facts(scheduler: Scheduler, view: PolicyView, now: float) -> dict[str, Any]:
    """``pressure`` is None where no probe is set, or none has answered lately (``unknown``)."""
    probing = scheduler.engine
    load = None if probing is None else probing.load(now)
    age = None if probing is None else probing.age_seconds(now)
    return {
        "probed": probing is not None,
        "pressure": None if load is None else round(load.pressure, 4),
        "detail": "" if load is None else load.detail,
        "queueing": view.engine_queueing,
        "unknown": probing is not None and load is None,
        "age_seconds": None if age is None else round(age, 1),
        "failing": "" if probing is None else probing.failing,
        "failures": 0 if probing is None else probing.failures,
    }
