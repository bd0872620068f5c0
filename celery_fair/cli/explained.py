"""One answer out of what the workers, the broker and the result backend say of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from celery.states import READY_STATES

from celery_fair.cli.explain_words import SHORT, at_workers, of_task, of_turn
from celery_fair.cli.explained_waits import NEVER, Wait, paces, reason_in, reasons
from celery_fair.cli.explanation import HERE, Explanation, Said
from celery_fair.cli.seen import Look, Seen
from celery_fair.front import whole_of, without_front
from celery_fair.observe.place import Place
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.pace import estimate
from celery_fair.policy.waiting import Reason


def explain_task(
    id: str, said: Said, look: Look, backend: Mapping[str, Any] | None, now: float
) -> Explanation:
    """Put together what is known of one task; a place that waits is believed before an end."""
    found = Explanation(id, backend=backend, looked=_looked(said, look, backend))
    here = _in_workers(said)
    if here and Place(here[0][1]["place"]) in HERE:
        _of_worker(found, *here[0], said, now)
    elif look.seen is not None and look.seen.place is Place.BROKER:
        _at_broker(found, said, look, now)
    elif here:
        node, task = here[0]
        found.place, found.worker, found.task = Place(task["place"]), node, task
        _after_end(found)
    elif look.seen is not None:
        _given_out(found, look)
    elif backend is not None:
        found.place = Place.ENDED if backend["state"] in READY_STATES else Place.UNKNOWN
    if not found.is_found:
        found.perhaps = list(_perhaps(said, look))
    return found


def _perhaps(said: Said, look: Look) -> Iterator[str]:
    """Queues in which there is more than could be looked at."""
    for queue, length in look.lengths.items():
        if not length or look.is_complete:
            continue
        serving = said.serving(queue)
        kind = _kind_of(queue, serving)
        words = {SHORT[why] for one in serving.values() if kind and (why := reason_in(one, kind))}
        for_what = f" ({'; '.join(sorted(words))})" if words else ""
        yield f"in {queue}, where {length} wait{for_what}"


def _looked(said: Said, look: Look, backend: Mapping[str, Any] | None) -> list[str]:
    number = len(said.reports) + len(said.silent)
    workers = f"{number} worker{'s' * (number != 1)} that answered"
    return [workers, *look.looked, *(["the result backend"] if backend is not None else [])]


def _in_workers(said: Said) -> list[tuple[str, Mapping[str, Any]]]:
    """Who knows something of it: where it is alive first, and then the latest end."""
    every = {node: report.get("task") for node, report in said.reports.items()}
    places, order = {place.value for place in Place}, list(Place)
    # A newer version may know of a place that has no name here.
    known = [
        (node, task)
        for node, task in (*every.items(), *said.plain_tasks.items())
        if task and task["place"] in places
    ]

    def rank(item: tuple[str, Mapping[str, Any]]) -> tuple[int, float]:
        place = Place(item[1]["place"])
        return (
            HERE.index(place) if place in HERE else len(order),
            -(item[1].get("at") or 0.0),
        )

    return sorted(known, key=rank)


def _of_worker(
    found: Explanation, node: str, task: Mapping[str, Any], said: Said, now: float
) -> None:
    """It runs or waits in a worker."""
    found.place, found.worker, found.task = Place(task["place"]), node, task
    report = said.reports.get(node)
    if found.place is Place.RUNNING:
        return
    if report is None:
        found.waits.append(Wait(Reason.PLAIN_WORKER, said.silent.get(node, "plain Celery"), [node]))
        return
    only = {
        Place.SCHEDULED: Reason.ETA,
        Place.RATE_LIMITED: Reason.RATE_LIMIT,
        Place.TIMING_OUT: Reason.TIMING_OUT,
        Place.CLEARING: Reason.HOOK if task.get("asks_hook") else Reason.RESOURCE,
    }.get(found.place)
    if only is not None:
        found.waits.append(Wait(only, of_task(only, task, now), [node]))
        _estimate(found, 0, None, [])
        return
    found.waits += reasons(task["kind"], task.get("queue"), {node: report}, now) or [_unnoticed()]
    turn = task.get("turn")
    if turn:
        reason = Reason.TENANT_CAP if turn["is_capped"] else Reason.TENANT_TURN
        found.waits.append(Wait(reason, of_turn(reason, turn), [node]))
    before = (task.get("nth") or 1) - 1
    if before:
        found.waits.append(Wait(Reason.IN_LINE, f"{before} of its kind before it there", [node]))
    _estimate(found, before, task["kind"], [report])


def _at_broker(found: Explanation, said: Said, look: Look, now: float) -> None:
    seen = look.seen
    assert seen is not None
    assert seen.queue is not None
    found.place = Place.BROKER
    found.task = {
        "kind": seen.kind, "task": seen.task, "queue": seen.queue, "enqueued_at": seen.ready_at,
        "nth": (seen.before or 0) + 1,
        "of": look.lengths.get(seen.queue, look.lengths.get(without_front(seen.queue))),
        "eta": seen.eta, "yields": seen.yields,
    }  # fmt: skip
    serving, plain = said.serving(seen.queue), said.plain_serving(seen.queue)
    kind = _kind_of(seen.queue, serving) or seen.kind  # a lane is its queues', whatever they hold
    if seen.eta is not None and seen.eta > now:
        found.waits.append(Wait(Reason.ETA, of_task(Reason.ETA, {"eta": seen.eta}, now)))
    found.waits += reasons(kind, seen.queue, serving or said.reports, now, at_all=bool(serving))
    if plain:
        found.waits.append(Wait(Reason.PLAIN_WORKER, at_workers(Reason.PLAIN_WORKER, plain), plain))
    if not found.waits:
        found.waits.append(_unnoticed() if serving else _unserved(said, seen.queue))
    found.waits += _before(seen)
    held = sum(report["kinds"][kind]["held"] for report in serving.values()) if kind else 0
    _estimate(found, (seen.before or 0) + held, kind, list(serving.values()))


def _unnoticed() -> Wait:
    return Wait(Reason.ARRIVING, "on its way: its worker has not looked at it yet")


def _unserved(said: Said, queue: str) -> Wait:
    if not said.reports and not said.silent:
        return Wait(Reason.NO_ANSWER, "no worker answers: none runs, or they are busy or cut off")
    return Wait(Reason.NO_CONSUMER, f"no worker that answers consumes {queue}")


def _before(seen: Seen) -> Iterator[Wait]:
    """What its queue gives out first."""
    if seen.in_front:
        text = f"{seen.in_front} in the front of its queue first"
        yield Wait(Reason.FRONT_FIRST, text)
    others = (seen.before or 0) - seen.in_front
    if others:
        yield Wait(Reason.IN_LINE, f"{others} before it in {seen.queue}")


def _kind_of(queue: str, serving: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The kind of whose lane the queue is."""
    for report in serving.values():
        for kind in KINDS:
            if {queue, whole_of(queue)}.intersection(report["kinds"][kind]["queues"]):
                return kind
    return None


def _given_out(found: Explanation, look: Look) -> None:
    seen = look.seen
    assert seen is not None
    found.place = Place.UNACKNOWLEDGED
    found.task = {
        "kind": seen.kind, "task": seen.task, "queue": seen.queue, "enqueued_at": seen.ready_at,
        "delivered_at": seen.delivered_at, "back_at": seen.back_at,
    }  # fmt: skip
    text = "the worker that has it doesn't answer: it is busy, cut off or dead"
    found.waits.append(Wait(Reason.NO_ANSWER, text, since=seen.delivered_at))
    found.no_estimate = NEVER[Reason.NO_ANSWER]


def _after_end(found: Explanation) -> None:
    """A copy that was dropped has another that runs, or has run."""
    if found.task.get("outcome") == "duplicate":
        text = "another message of the same request has its place; ask for it again"
        found.waits.append(Wait(Reason.DUPLICATE, text))


def _estimate(
    found: Explanation, before: int, kind: str | None, reports: Sequence[Mapping[str, Any]]
) -> None:
    """When it starts; or why nobody can say."""
    waits = [wait.reason for wait in found.waits]
    if Reason.ETA in waits:
        found.no_estimate = "not before its time"
        return
    if waits and waits[0] in NEVER:
        found.no_estimate = NEVER[waits[0]]
        return
    found.estimate = estimate(before, paces(kind, reports)) if kind else None
    if found.estimate is None:
        found.no_estimate = "none of its kind has ended there yet"
