"""One answer out of what the workers, the broker and the result backend say of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from celery.states import READY_STATES

from celery_fair.cli.explain_words import at_worker, at_workers, of_task
from celery_fair.cli.looking import Look, Seen
from celery_fair.front import behind, is_front
from celery_fair.observe.place import Place
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.pace import Estimate, Pace, estimate
from celery_fair.policy.waiting import Reason

HERE: Final = (
    Place.RUNNING, Place.HELD, Place.TIMING_OUT, Place.RATE_LIMITED, Place.SCHEDULED,
    Place.RECEIVED,
)  # fmt: skip
"""Where a worker has a task, the most telling first; after that it is at the broker, or over."""

NEVER: Final[Mapping[Reason, str]] = {
    Reason.PAUSED: "it is paused",
    Reason.NO_CONSUMER: "no worker consumes its queue",
    Reason.NO_ANSWER: "its worker doesn't answer",
    Reason.RATE_LIMIT: "its rate limit is Celery's",
    Reason.DRAINING: "its worker is being emptied",
    Reason.STOPPING: "its worker ends",
    Reason.OBSERVING: "Celery's own order rules there",
    Reason.PLAIN_WORKER: "a worker without celery-fair doesn't tell",
    Reason.TIMING_OUT: "it will not run",
}
"""What no rate says anything about."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was asked for and came: replies of workers with celery-fair, and of those without."""

    reports: Mapping[str, Mapping[str, Any]]
    silent: Mapping[str, str] = field(default_factory=dict)
    """What workers say that run as plain Celery."""
    plain_tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plain_queues: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def serving(self, queue: str) -> dict[str, Mapping[str, Any]]:
        """The workers with celery-fair that consume a queue, the front of one as the queue."""
        name = behind(queue) if is_front(queue) else queue
        return {
            node: report
            for node, report in self.reports.items()
            if any(name in report["kinds"][kind]["queues"] for kind in KINDS)
        }

    def plain_serving(self, queue: str) -> list[str]:
        return sorted(node for node, queues in self.plain_queues.items() if queue in queues)


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a task or a kind waits for, and in how many workers."""

    reason: Reason
    text: str
    workers: Sequence[str] = ()
    since: float | None = None


@dataclass(slots=True)
class Explanation:
    """Where a task is, and why; what isn't known is None or empty. Times are epoch seconds."""

    id: str
    place: Place = Place.UNKNOWN
    worker: str | None = None
    task: Mapping[str, Any] = field(default_factory=dict)
    waits: list[Wait] = field(default_factory=list)
    estimate: Estimate | None = None
    no_estimate: str | None = None
    backend: Mapping[str, Any] | None = None
    looked: list[str] = field(default_factory=list)

    @property
    def is_found(self) -> bool:
        return self.place is not Place.UNKNOWN

    @property
    def waits_still(self) -> bool:
        """Whether it is still to be started."""
        return self.place in (*HERE[1:], Place.BROKER, Place.UNACKNOWLEDGED)


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
    return found


def _looked(said: Said, look: Look, backend: Mapping[str, Any] | None) -> list[str]:
    number = len(said.reports) + len(said.silent)
    workers = f"{number} worker{'s' * (number != 1)} that answered"
    return [workers, *look.looked, *(["the result backend"] if backend is not None else [])]


def _in_workers(said: Said) -> list[tuple[str, Mapping[str, Any]]]:
    """Who knows something of it: where it is alive first, and then the latest end."""
    known = [
        (node, report["task"]) for node, report in said.reports.items() if report.get("task")
    ] + list(said.plain_tasks.items())
    order = list(Place)

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
    }.get(found.place)
    if only is not None:
        found.waits.append(Wait(only, of_task(only, task, now), [node]))
        _estimate(found, 0, None, [])
        return
    for wait in reasons(task["kind"], task.get("queue"), {node: report}, now):
        found.waits.append(wait)
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
        "nth": (seen.before or 0) + 1, "of": look.lengths.get(behind(seen.queue)), "eta": seen.eta,
    }  # fmt: skip
    serving, plain = said.serving(seen.queue), said.plain_serving(seen.queue)
    kind = seen.kind or _kind_of(seen.queue, serving)
    if seen.eta is not None and seen.eta > now:
        found.waits.append(Wait(Reason.ETA, of_task(Reason.ETA, {"eta": seen.eta}, now)))
    found.waits += reasons(kind, seen.queue, serving or said.reports, now, at_all=bool(serving))
    if plain:
        found.waits.append(Wait(Reason.PLAIN_WORKER, at_workers(Reason.PLAIN_WORKER, plain), plain))
    if not found.waits and not serving:
        text = f"no worker that answers consumes {seen.queue}"
        found.waits.append(Wait(Reason.NO_CONSUMER, text))
    found.waits += _before(seen)
    held = sum(report["kinds"][kind]["held"] for report in serving.values()) if kind else 0
    _estimate(found, (seen.before or 0) + held, kind, list(serving.values()))


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
            if queue in report["kinds"][kind]["queues"]:
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


def reasons(
    kind: str | None,
    queue: str | None,
    reports: Mapping[str, Mapping[str, Any]],
    now: float,
    *,
    at_all: bool = True,
) -> list[Wait]:
    """Why a kind waits in these workers; those in which the same hinders it are told together.

    ``at_all``: whether they consume its queue; else only a pause is told, which may be why not.
    """
    if kind is None:
        return []
    by_reason: dict[Reason, dict[str, Mapping[str, Any]]] = {}
    for node, report in reports.items():
        reason = reason_in(report, kind, queue)
        if reason is not None and (at_all or reason is Reason.PAUSED):
            by_reason.setdefault(reason, {})[node] = report
    # Where nothing hinders it, it starts, whatever goes on in the others.
    ranked = sorted(by_reason.items(), key=lambda it: (it[0] is not Reason.ARRIVING, -len(it[1])))
    return [_wait(reason, kind, nodes, now) for reason, nodes in ranked]


def _wait(reason: Reason, kind: str, nodes: Mapping[str, Mapping[str, Any]], now: float) -> Wait:
    names = sorted(nodes)
    since = [report["kinds"][kind]["since"] for report in nodes.values()]
    text = (
        at_worker(reason, kind, nodes[names[0]], now)
        if len(names) == 1
        else at_workers(reason, names)
    )
    return Wait(reason, text, names, min((at for at in since if at is not None), default=None))


def reason_in(report: Mapping[str, Any], kind: str, queue: str | None = None) -> Reason | None:
    """What a kind, or one queue of it, waits for in a worker."""
    if report["stopping"]:
        return Reason.STOPPING
    steering = report["steering"]
    if steering["draining"]:
        return Reason.DRAINING
    if any(_holds(pause, kind, queue) for pause in steering["paused"]):
        return Reason.PAUSED
    try:
        return Reason(report["kinds"][kind]["why"])
    except ValueError:  # None, or a word of a newer version
        return None


def _holds(pause: Mapping[str, Any], kind: str, queue: str | None) -> bool:
    """Whether a pause is of that kind, or of that queue of it and its front."""
    if pause["kind"] != kind:
        return False
    return pause["queue"] is None or (
        queue is not None and pause["queue"] == (behind(queue) if is_front(queue) else queue)
    )


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


def paces(kind: str, reports: Sequence[Mapping[str, Any]]) -> list[Pace]:
    """How fast each worker serves a kind."""
    return [
        Pace(one["started_a_second"], one["slots"], one["mean_run_seconds"])
        for one in (report["kinds"][kind] for report in reports)
    ]
