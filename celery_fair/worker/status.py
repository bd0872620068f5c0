"""What a worker says of itself: plain JSON values, for ``fair status`` and ``inspect stats``."""

from __future__ import annotations

import time
from time import monotonic
from typing import TYPE_CHECKING, Any

import celery_fair
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.worker.brevity import short_settings, shorten_lists

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler


def summary(scheduler: Scheduler) -> dict[str, Any]:
    """The few flat figures under the key ``fair`` of ``inspect stats``."""
    view = scheduler.policy.view(monotonic())
    return {
        "version": celery_fair.__version__,
        "gate": view.mode.value,
        "slots": view.slots,
        "running_interactive": view.running_interactive,
        "running_batch": view.running_batch,
        "reserve": view.reserve,
    }


def report(scheduler: Scheduler) -> dict[str, Any]:
    """Everything that ``fair status`` shows of one worker; times are epoch seconds."""
    kinds = {kind: _kind(scheduler, kind, monotonic()) for kind in KINDS}
    shorten_lists(kinds)
    now = monotonic()
    to_epoch = time.time() - now
    view = scheduler.policy.view(now)
    dispatcher, sensor = scheduler.dispatcher, scheduler.measuring.sensor
    return {
        "version": celery_fair.__version__,
        "mode": scheduler.settings.mode,
        "started_at": scheduler.started_at,
        "gate": {
            "mode": view.mode.value,
            "since": view.mode_since + to_epoch,
            "reason": view.mode_reason,
            "changes": view.mode_changes,
            "blind": view.blind,
        },
        "slots": {
            "total": view.slots,
            "reserve": view.reserve,
            "batch_ceiling": view.batch_ceiling,
            "guaranteed_to_batch": view.owed_ceiling,
            "audited": dispatcher.slots.audited,
        },
        "ended_by_pool": dispatcher.slots.fatal.report(),
        "share": {
            "guaranteed": view.share,
            "received": view.share_received,
            "debt_seconds": round(view.debt_seconds, 3),
            "owed": view.batch_owed,
        },
        "fleet": {
            "workers": view.fleet_workers,
            "slots": view.fleet_slots,
            "in_sight": view.fleet_in_sight,
        },
        "last_batch_start": (
            None if view.last_batch_start is None else view.last_batch_start + to_epoch
        ),
        "sensor": {
            "available": scheduler.measuring.is_possible and sensor.ready is not None,
            "reads": sensor.reads,
            "failures": sensor.failures,
            "latency_seconds": round(sensor.latency_seconds, 5),
        },
        "clock_skew_clamps": dispatcher.waits.clamped + dispatcher.arrivals.clamped,
        "headers": {
            "missing": dispatcher.arrivals.missing,
            "unreadable": dispatcher.arrivals.unreadable,
        },
        # Only what was set: a reply must stay small, whatever the number of queues.
        "settings": short_settings(
            scheduler.settings.model_dump(mode="json", exclude_defaults=True)
        ),
        "kinds": kinds,
    }


def _kind(scheduler: Scheduler, kind: Kind, now: float) -> dict[str, Any]:
    dispatcher, view = scheduler.dispatcher, scheduler.policy.view(now)
    lane = dispatcher.lanes.get(kind)
    mean = view.batch_mean_seconds if kind == "batch" else view.interactive_mean_seconds
    return {
        "queues": scheduler.queues(kind),
        "running": view.running_batch if kind == "batch" else view.running_interactive,
        "held": len(lane) if lane is not None else 0,
        "rate_limited": lane.limited if lane is not None else 0,
        "scheduled": lane.scheduled if lane is not None else 0,
        "credit": lane.credit if lane is not None else 0,
        "backlog": scheduler.backlog(kind, now) if lane is not None else None,
        "ready": _ready(scheduler, kind, now) if lane is not None else None,
        "dispatched": dispatcher.dispatched[kind],
        "given_back": dispatcher.given_back[kind],
        "would_have_held": dispatcher.would_have_held[kind],
        "wait_seconds": dict(dispatcher.waits.summary(kind, now)),
        "mean_run_seconds": round(mean, 4),
    }


def _ready(scheduler: Scheduler, kind: Kind, now: float) -> dict[str, int] | None:
    """Messages at the broker by queue, empty queues left out; ``None`` if unknown."""
    backlog = scheduler.backlog(kind, now)
    if backlog is None:
        return None
    if backlog == scheduler.lanes[kind].waiting:
        return {}
    counts = scheduler.measuring.sensor.ready or {}
    return {queue: counts[queue] for queue in scheduler.queues(kind) if counts.get(queue)}
