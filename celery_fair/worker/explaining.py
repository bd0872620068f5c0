"""What one worker knows of a task, and of why its kinds wait: the reply to ``fair_explain``."""

from __future__ import annotations

import time
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from celery_fair.observe.facts import collect
from celery_fair.observe.place import Place
from celery_fair.observe.recent import LONGEST, Ended
from celery_fair.policy.kinds import BATCH, KINDS, Kind
from celery_fair.policy.waiting import Reason, why_waits
from celery_fair.worker import internals
from celery_fair.worker.lanes import Lane
from celery_fair.worker.whereabouts import find

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

MOST_RECENT: Final = 10
CHANGES: Final = 5
QUEUES: Final = 5
"""Of lists of decisions, of changes of the gate and of queues: a reply has at most 8 kB."""

NAME_LENGTH: Final = 80
"""Characters of each name in a list of them."""

OF_KIND: Final = (
    "queues", "queues_left_out", "running", "held", "rate_limited", "uncleared", "scheduled",
    "credit", "backlog", "ready", "ready_left_out", "mean_run_seconds",
)  # fmt: skip
OF_GATE: Final = ("mode", "since", "cause", "reason", "blind")
OF_ENGINE: Final = ("pressure", "detail", "queueing")
OF_SLOTS: Final = ("total", "reserve", "batch_ceiling", "guaranteed_to_batch")


def explain(scheduler: Scheduler, task_id: str | None = None, recent: int = 0) -> dict[str, Any]:
    """Everything that one answer needs of this worker; times are epoch seconds."""
    scheduler.dispatcher.settle()
    facts, now = collect(scheduler, quantiles=False), monotonic()
    kept = scheduler.dispatcher.counting.recent
    reply: dict[str, Any] = {
        "version": facts["version"],
        "mode": facts["mode"],
        "started_at": facts["started_at"],
        "stopping": not scheduler.pool.is_running(),
        "gate": {name: facts["gate"][name] for name in OF_GATE},
        "slots": {name: facts["slots"][name] for name in OF_SLOTS},
        "engine": {name: facts["engine"][name] for name in OF_ENGINE},
        "steering": _steering(facts),
        "kinds": {kind: _kind(scheduler, kind, facts, now) for kind in KINDS},
        "record": {
            "tasks": len(kept),
            "tasks_forgotten": kept.forgotten,
            "waits_merged": scheduler.timeline.merged,
        },
    }
    if task_id is not None:
        reply["task"] = find(scheduler, task_id[:LONGEST], now)
    else:  # nobody looks for a queue
        reply["changes"] = facts["gate"]["history"][-CHANGES:]
        for part in reply["kinds"].values():
            names = part["queues"]
            part["queues_left_out"] += len(names) - len(names[:QUEUES])
            part["queues"] = names[:QUEUES]
    if recent:
        reply["recent"] = [_brief(ended) for ended in kept.last(min(recent, MOST_RECENT))]
    return reply


def explain_plain(task_id: str) -> dict[str, Any]:
    """The same of a worker that runs as plain Celery: what its books say of the task."""
    request = internals.known_request(task_id)
    if request is None:
        return {}
    place = Place.RUNNING if internals.is_active(request) else Place.RECEIVED
    queue = internals.queue_of(request)
    return {"task": {"place": place.value, "task": request.task.name, "queue": queue}}


def _steering(facts: dict[str, Any]) -> dict[str, Any]:
    """What of the orders is in force here."""
    steering = facts["steering"]
    if steering["not_in_force"]:
        return {"paused": [], "draining": None}
    return {"paused": steering["paused"], "draining": steering["draining"]}


def _kind(scheduler: Scheduler, kind: Kind, facts: dict[str, Any], now: float) -> dict[str, Any]:
    said = facts["kinds"][kind]
    reason, since = why(scheduler, kind, now) or (None, None)
    lane = scheduler.lanes.get(kind)
    oldest = lane.oldest_ready_at() if lane is not None else None
    return {
        **{name: said[name] for name in OF_KIND},
        "why": reason.value if reason is not None else None,
        "since": None if since is None else since + time.time() - now,
        "oldest_ready_at": oldest,
        "started_a_second": _started_a_second(scheduler, kind, now),
        "slots": _slots_for(scheduler, kind, facts["kinds"][BATCH]),
    }


def why(scheduler: Scheduler, kind: Kind, now: float) -> tuple[Reason, float | None] | None:
    """What a kind waits for this instant, and since when; None if nothing of it waits."""
    if not scheduler.switching.enforcing:
        return Reason.OBSERVING, None
    reason = why_waits(kind, scheduler.scene(now))
    if reason is None:
        return None
    lane = scheduler.lanes.get(kind)
    if reason is Reason.ARRIVING and lane is not None and _is_full(lane):
        return Reason.NO_CREDIT, None
    known = scheduler.timeline.now(kind)
    return reason, known[1] if known is not None and known[0] is reason else None


def _is_full(lane: Lane) -> bool:
    """Whether it has credit, and may take nothing for what waits in it for something else."""
    return lane.credit - len(lane) > 0 and lane.room() <= 0


def _started_a_second(scheduler: Scheduler, kind: Kind, now: float) -> float | None:
    """Over the last minute, if the kind has waited for most of it: else there were more to have."""
    found = scheduler.starts.rate(kind, scheduler.dispatcher.dispatched[kind], now)
    if found is None:
        return None
    rate, seconds = found
    waited = scheduler.timeline.over(kind, now - seconds, now).seconds
    return round(rate, 4) if sum(waited.values()) >= seconds / 2 else None


def _slots_for(scheduler: Scheduler, kind: Kind, batch: dict[str, Any]) -> int:
    """The slots that a kind can count on while it waits, as things are now."""
    view = scheduler.policy.view(monotonic())
    if kind == BATCH:
        return max(min(view.batch_ceiling, view.slots - view.reserve), view.owed_ceiling)
    both_want_slots = batch["running"] or batch["backlog"]
    return view.slots - (view.owed_ceiling if both_want_slots else 0)


def _brief(ended: Ended) -> dict[str, Any]:
    """One line of a list; never more than about 400 bytes."""
    task = ended.task
    return {
        "at": round(ended.at, 3),
        "id": task.id[:NAME_LENGTH],
        "task": task.name[:NAME_LENGTH],
        "kind": task.kind,
        "outcome": task.outcome,
        "wait_seconds": _rounded(task.wait_seconds),
        "run_seconds": _rounded(task.run_seconds),
        "mode": task.mode,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
