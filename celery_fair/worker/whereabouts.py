"""Where in a worker a task is, or what has become of it there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from celery_fair.headers import FairHeader
from celery_fair.observe.log import task_fields
from celery_fair.observe.place import Place
from celery_fair.observe.recent import LONGEST, Ended
from celery_fair.observe.timeline import HORIZON_SECONDS
from celery_fair.observer import TaskInfo
from celery_fair.policy.kinds import Kind
from celery_fair.policy.load import Mode
from celery_fair.worker import internals, telling
from celery_fair.worker.lanes import Held, Lane
from celery_fair.worker.tenants import shown

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

ATTEMPTS: Final = 3
"""Earlier ends of the same id that are told beside where it is now."""

BLANK_SECONDS: Final = 1.5
"""What waits at the broker is counted once a second, or more often."""


def find(scheduler: Scheduler, id: str, now: float) -> dict[str, Any] | None:
    """The latest of a task that is known here; None if nothing is."""
    ended = scheduler.dispatcher.counting.recent.of(id)
    found = next(_alive(scheduler, id), None)
    if found is None and not ended:
        return None
    if found is None:
        last, *ended = ended
        found = _of_ended(last)
    task, request = found.pop("info"), found.pop("request", None)
    waits = found["place"] != Place.SCHEDULED.value
    return {
        **task_fields(task),
        **found,
        "yields": _yields(request) if request is not None else 0,
        "waited": _waited(scheduler, task, now) if waits else None,
        "before": [_of_attempt(one) for one in ended[:ATTEMPTS]],
    }


def _alive(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    """Where the messages of one id are, those that run first."""
    for look in (_running, _held, _clearing, _limited, _scheduled, _in_the_books):
        yield from look(scheduler, id)


def _running(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    for slot in scheduler.dispatcher.slots:
        if not _is(slot.request, id):
            continue
        if not scheduler.switching.enforcing and slot.request.time_start is None:
            # Celery gives a pool more than it has room for.
            info, place = _info(scheduler, slot.request), Place.RECEIVED
        else:
            info, place = telling.of_slot(slot, finished=False), Place.RUNNING
        yield {"place": place.value, "request": slot.request, "info": info}


def _held(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    for kind, lane in scheduler.lanes.items():
        for held in list(lane):
            if _is(held.request, id):
                turn = {"turn": _turn(lane, held)} if lane.takes_turns else {}
                yield {**_in_line(kind, held, lane.before(held), len(lane)), **turn}
        aside = list(lane.aside)
        for held in aside:
            if _is(held.request, id):
                yield _in_line(kind, held, sum(other < held for other in aside), len(aside))


def _in_line(kind: Kind, held: Held, before: int, of: int) -> dict[str, Any]:
    place = {"place": Place.HELD.value, "nth": before + 1, "of": of}
    return {**place, "request": held.request, "info": telling.of_held(kind, held)}


def _turn(lane: Lane, held: Held) -> dict[str, Any] | None:
    """What stands before its tenant, if it is another's turn."""
    standing = lane.turns.standing(held.tenant)
    if standing is None:
        return None
    return {
        "tenant": shown(held.tenant),
        "others": standing.others,
        "ahead_seconds": round(standing.ahead_seconds, 3),
        "running": standing.running,
        "is_capped": standing.is_capped,
    }


def _clearing(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    for kind, lane in scheduler.lanes.items():
        for waiting in list(lane.uncleared.values()):
            if scheduler.clearing is not None and _is(waiting.request, id):
                place = {"place": Place.CLEARING.value, **scheduler.clearing.why(waiting)}
                info = telling.of_held(kind, waiting.held)
                yield {**place, "request": waiting.request, "info": info}


def _limited(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    every = internals.limited_requests(scheduler.c)
    for request in every:
        if _is(request, id):
            rate = str(request.task.rate_limit)[:LONGEST]
            same = [other for other in every if other.task is request.task]
            place = {"place": Place.RATE_LIMITED.value, "rate_limit": rate}
            line = {"nth": same.index(request) + 1, "of": len(same)}
            yield {**place, **line, "request": request, "info": _info(scheduler, request)}


def _scheduled(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    for request in internals.scheduled_requests(scheduler.c.timer):
        if _is(request, id):
            eta = request.eta.timestamp() if request.eta is not None else None
            place = {"place": Place.SCHEDULED.value, "eta": eta}
            yield {**place, "request": request, "info": _info(scheduler, request)}


def _in_the_books(scheduler: Scheduler, id: str) -> Iterator[dict[str, Any]]:
    """A request that Celery has, and that is on its way from one place to another."""
    request = internals.known_request(id)
    if request is not None and request.__dict__.get("fair_slot") is None:
        lane = _lane_of(request)
        failing = lane is not None and lane.failing
        place = Place.TIMING_OUT if failing else Place.RECEIVED
        yield {"place": place.value, "request": request, "info": _info(scheduler, request)}


def _info(scheduler: Scheduler, request: Any) -> TaskInfo:
    """What is known of a request that waits for something that is no slot."""
    lane = _lane_of(request)
    kind = lane.kind if lane is not None else scheduler.fair.settings.default_kind
    return telling.of_request(kind, request)


def _yields(request: Any) -> int:
    """How often the task has yielded before this run of it."""
    header = FairHeader.read(internals.message_of(request).headers)
    return header.yields if header is not None else 0


def _lane_of(request: Any) -> Lane | None:
    """Its lane; an observing worker has put it into none."""
    return getattr(internals.message_of(request), "fair_lane", None)


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
    earliest = max(since, now - HORIZON_SECONDS)
    found = scheduler.timeline.over(task.kind, earliest, until, blank_seconds=BLANK_SECONDS)
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
