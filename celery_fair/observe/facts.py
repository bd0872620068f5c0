"""One set of facts of a worker, in plain JSON values; every view draws on it.

``fair status`` and ``inspect stats`` ask for it, ``worker-fair`` events carry it, and metrics are
made of it: of a worker's own, or of what the events have told.
"""

from __future__ import annotations

import time
from time import monotonic
from typing import TYPE_CHECKING, Any

import celery_fair
from celery_fair.front import without_parts
from celery_fair.observe.brevity import short_settings, shorten_lists
from celery_fair.observe.clearing import clearing_facts
from celery_fair.observe.engine import engine_facts
from celery_fair.observe.steering import steering_facts
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.policy.load import Mode
from celery_fair.policy.view import PolicyView
from celery_fair.retries import Counts
from celery_fair.sharding.names import home_of

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

HISTORY = 10
"""Changes of the gate that travel with the facts."""


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


def collect(scheduler: Scheduler, *, quantiles: bool = True) -> dict[str, Any]:
    """Everything that is known of one worker; times are epoch seconds.

    May be called by any thread; one figure may then be a moment older than the next. ``quantiles``
    are of recent waits, of which thousands are sorted for them.
    """
    now = monotonic()
    kinds = {kind: _kind(scheduler, kind, now) for kind in KINDS}
    for kind, part in kinds.items() if quantiles else ():
        part["wait_seconds"] = dict(scheduler.dispatcher.counting.waits.summary(kind, now))
    shorten_lists(kinds)
    to_epoch = time.time() - now
    view = scheduler.policy.view(now)
    dispatcher, sensor = scheduler.dispatcher, scheduler.measuring.sensor
    return {
        "version": celery_fair.__version__,
        "mode": scheduler.switching.mode,
        "started_at": scheduler.started_at,
        "gate": {
            "mode": view.mode.value,
            "since": view.mode_since + to_epoch,
            "reason": view.mode_reason,
            "cause": view.mode_cause.value if view.mode_cause else None,
            "changes": _changes(view),
            "seconds": _mode_seconds(scheduler, view),
            "history": [list(change) for change in list(scheduler.record.changes)[-HISTORY:]],
            "blind": view.blind,
        },
        "slots": {
            "total": view.slots,
            "reserve": view.reserve,
            "batch_ceiling": view.batch_ceiling,
            "guaranteed_to_batch": view.owed_ceiling,
            "audited": dispatcher.slots.audited,
            "idle_seconds": {
                reason.value: round(seconds, 3)
                for reason, seconds in scheduler.record.idle_seconds.items()
            },
        },
        "ended_by_pool": dispatcher.slots.fatal.report(),
        "share": {
            "guaranteed": view.share,
            "received": view.share_received,
            "debt_seconds": round(view.debt_seconds, 3),
            "owed": view.batch_owed,
        },
        "engine": engine_facts(scheduler, view, now),
        "resources": scheduler.resource_views.report(now),
        "clearing": clearing_facts(scheduler),
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
        "clock_skew_clamps": dispatcher.counting.waits.clamped + dispatcher.arrivals.clamped,
        "headers": {
            "missing": dispatcher.arrivals.missing,
            "unreadable": dispatcher.arrivals.unreadable,
        },
        # Only what was set: a reply must stay small, whatever the number of queues.
        "settings": short_settings(scheduler.settings.shown()),
        "steering": steering_facts(scheduler.steering),
        "retries": _retries(scheduler),
        "yielding": scheduler.asking.figures.report(),
        "observer_failures": scheduler.fair.observers.failures,
        "recording": scheduler.recording.report(),
        "kinds": kinds,
    }


def _retries(scheduler: Scheduler) -> dict[str, Any]:
    """What the budget of batch retries has come to, where there is one."""
    budget = scheduler.fair.retrying.budget
    counts = Counts(None, 0, 0) if budget is None else budget.counts()
    return counts._asdict()


def _changes(view: PolicyView) -> dict[str, dict[str, int]]:
    """How often the gate went to each mode, by cause."""
    counted: dict[str, dict[str, int]] = {mode.value: {} for mode in Mode}
    for (mode, cause), number in view.mode_changes.items():
        counted[mode.value][cause.value] = number
    return counted


def _mode_seconds(scheduler: Scheduler, view: PolicyView) -> dict[str, float]:
    """Never less than was told before, as slot time: the tick that changes the mode may be late."""
    kept = scheduler.record.mode_seconds
    for mode, seconds in view.mode_seconds.items():
        kept[mode] = max(kept[mode], seconds)
    return {mode.value: round(seconds, 3) for mode, seconds in kept.items()}


def _kind(scheduler: Scheduler, kind: Kind, now: float) -> dict[str, Any]:
    dispatcher, view = scheduler.dispatcher, scheduler.policy.view(now)
    counts = dispatcher.counting.counts
    lane = dispatcher.lanes.get(kind)
    running = view.running_batch if kind == "batch" else view.running_interactive
    mean = view.batch_mean_seconds if kind == "batch" else view.interactive_mean_seconds
    return {
        "queues": without_parts(scheduler.backlog.queues(kind)),
        "running": running - sum(slot.kind == kind for slot in list(dispatcher.parked)),
        "held": len(lane) + len(lane.aside) if lane is not None else 0,
        "rate_limited": lane.limited if lane is not None else 0,
        "scheduled": lane.scheduled if lane is not None else 0,
        "credit": lane.credit if lane is not None else 0,
        "tenants": lane.tenants(now) if lane is not None else None,
        "source_available": lane is not None and scheduler.backlog.of(kind, now) is not None,
        "uncleared": len(lane.uncleared) if lane is not None else 0,
        "backlog": _backlog(scheduler, kind, now) if lane is not None else None,
        "ready": _ready(scheduler, kind, now) if lane is not None else None,
        "dispatched": dispatcher.dispatched[kind],
        "given_back": dispatcher.giving_back.counts[kind],
        "would_have_held": dispatcher.would_have_held[kind],
        "finished": {how: n for how, n in counts.finished[kind].items() if n},
        "dropped": {how: n for how, n in counts.dropped[kind].items() if n},
        "waits": counts.waits[kind].report(),
        "runs": counts.runs[kind].report(),
        "slot_seconds": round(_slot_seconds(scheduler, kind, now), 3),
        "mean_run_seconds": round(mean, 4),
    }


def _slot_seconds(scheduler: Scheduler, kind: Kind, now: float) -> float:
    """What tasks of this kind have had of the slots, those that run now included.

    It never falls, or Prometheus would take it for a worker that has started anew and count all of
    it once more: a task on its way out, from the slots to the finished to the counts, may be missed
    here (and is never met twice in this order), and is then made up for the next time.
    """
    dispatcher, kept = scheduler.dispatcher, scheduler.record.slot_seconds
    seconds = dispatcher.counting.counts.runs[kind].sum_seconds
    for slot in [*dispatcher.counting.ended, *dispatcher.slots.finished]:
        seconds += slot.finished_at - slot.started_at if slot.kind == kind else 0.0
    begun = [slot for slot in dispatcher.slots if slot not in dispatcher.parked]
    seconds += sum(now - slot.started_at for slot in begun if slot.kind == kind)
    kept[kind] = seconds = max(seconds, kept[kind])
    return seconds


def tasks(scheduler: Scheduler) -> list[dict[str, Any]]:
    """What is counted by name, in the order in which the names came up."""
    return [
        {
            "kind": kind,
            "task": name,
            "outcomes": dict(counts.outcomes),
            "waits": counts.waits,
            "wait_seconds": round(counts.wait_seconds, 6),
            "run_seconds": round(counts.run_seconds, 6),
        }
        for kind, named in scheduler.dispatcher.counting.counts.tasks.items()
        for name, counts in list(named.items())
    ]


def _backlog(scheduler: Scheduler, kind: Kind, now: float) -> int | None:
    """What waits for a slot, and what waits here for more than that."""
    for_slots = scheduler.backlog.of(kind, now)
    return None if for_slots is None else for_slots + len(scheduler.lanes[kind].uncleared)


def _ready(scheduler: Scheduler, kind: Kind, now: float) -> dict[str, int] | None:
    """Messages at the broker by queue, empty queues left out; ``None`` if unknown.

    Those of shards are in their queue: there may be many, and whoever looks set none up by name.
    """
    backlog = scheduler.backlog.of(kind, now)
    if backlog is None:
        return None
    if backlog == scheduler.lanes[kind].waiting:
        return {}
    counts = scheduler.measuring.sensor.ready or {}
    ready: dict[str, int] = {}
    for queue in scheduler.backlog.queues(kind):
        if counts.get(queue):
            whole = home_of(queue)
            ready[whole] = ready.get(whole, 0) + counts[queue]
    return ready
