"""Where in a worker a task is, or what has become of it there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from celery_fair.observe.log import task_fields
from celery_fair.observe.place import Place
from celery_fair.observe.recent import LONGEST, Ended
from celery_fair.observe.timeline import HORIZON_SECONDS
from celery_fair.observer import TaskInfo
from celery_fair.policy.kinds import Kind
from celery_fair.policy.load import Mode
from celery_fair.worker import internals, telling

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

ATTEMPTS: Final = 3
"""Earlier ends of the same id that are told beside where it is now."""

TEXT_LENGTH: Final = 255


def find(scheduler: Scheduler, id: str, now: float) -> dict[str, Any] | None:
    """The latest of a task that is known here; None if nothing is."""
    ended = scheduler.dispatcher.counting.recent.of(id)
    found = next(_alive(scheduler, id), None)
    if found is None and not ended:
        return None
    if found is None:
        last, *ended = ended
        found = _of_ended(last)
    task = found.pop("info")
    waits = found["place"] != Place.SCHEDULED.value
    return {
        **task_fields(task),
        **found,
        "waited": _waited(scheduler, task, now) if waits else None,
        "before": [_of_attempt(one) for one in ended[:ATTEMPTS]],
    }


def _alive(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    """Where the messages of one id are, those that run first."""
    for slot in scheduler.dispatcher.slots:
        if _is(slot.request, id):
            yield {"place": Place.RUNNING.value, "info": telling.of_slot(slot, finished=False)}
    for kind, lane in scheduler.lanes.items():
        for held in list(lane):
            if _is(held.request, id):
                nth = sum(other < held for other in list(lane)) + 1
                info = telling.of_held(kind, held)
                yield {"place": Place.HELD.value, "nth": nth, "of": len(lane), "info": info}
    request = internals.known_request(id)
    if request is not None and request.__dict__.get("fair_slot") is None:
        yield from _elsewhere(scheduler, request)


def _elsewhere(scheduler: Scheduler, request: Any) -> Iterator[dict[str, Any]]:
    """A request that Celery has: it waits for something that is no slot."""
    message = internals.message_of(request)
    lane = getattr(message, "fair_lane", None)
    kind: Kind = lane.kind if lane is not None else scheduler.fair.settings.default_kind
    info = telling.of_request(kind, request)
    if request in internals.scheduled_requests(scheduler.c.timer):
        eta = request.eta.timestamp() if request.eta is not None else None
        yield {"place": Place.SCHEDULED.value, "eta": eta, "info": info}
    elif request.__dict__.get("fair_limited"):
        rate = str(request.task.rate_limit)[:TEXT_LENGTH]
        yield {"place": Place.RATE_LIMITED.value, "rate_limit": rate, "info": info}
    elif lane is not None and lane.failing:
        yield {"place": Place.TIMING_OUT.value, "info": info}
    else:
        yield {"place": Place.RECEIVED.value, "info": info}


def _is(request: Any, id: str) -> bool:
    return str(getattr(request, "id", None))[:LONGEST] == id  # a slot's is gone once it is counted


def _of_ended(ended: Ended) -> dict[str, Any]:
    task = ended.task
    if task.started_at is not None:
        place = Place.ENDED
    else:
        place = Place.GIVEN_BACK if task.outcome == Place.GIVEN_BACK else Place.DROPPED
    return {"place": place.value, "at": ended.at, "info": task}


def _of_attempt(ended: Ended) -> dict[str, Any]:
    return {"at": ended.at, "outcome": ended.task.outcome}


def _waited(scheduler: Scheduler, task: TaskInfo, now: float) -> dict[str, Any] | None:
    """Why it waited here, or has until now, as far as the record tells; seconds by reason."""
    to_epoch = time.time() - now
    end = task.started_at
    begin = task.enqueued_at if task.enqueued_at is not None else task.pulled_at
    if begin is None or (end is None and task.outcome is not None):
        return None
    since, until = begin - to_epoch, (end - to_epoch if end is not None else now)
    seconds = max(until - since, 0.0)
    found = scheduler.timeline.over(task.kind, max(since, now - HORIZON_SECONDS), until)
    known = sum(found.seconds.values())
    return {
        "seconds": round(seconds, 3),
        "by": {reason.value: round(lasted, 3) for reason, lasted in found.seconds.items()},
        "unknown_seconds": round(max(seconds - known, 0.0), 3),
        "running_interactive": round(found.running_interactive, 1),
        "running_batch": round(found.running_batch, 1),
        "gate_reason": _gate_reason(scheduler, begin, until + to_epoch),
    }


def _gate_reason(scheduler: Scheduler, begin: float, end: float) -> str | None:
    """Why the gate was shut last before the end of a wait, if it was then."""
    shut = None
    for change in list(scheduler.record.changes):
        if change.at > end:
            break
        if change.mode == Mode.PROTECTED.value:
            shut = change.reason
        elif change.at <= begin:
            shut = None
    return shut
