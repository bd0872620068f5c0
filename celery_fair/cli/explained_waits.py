"""What a kind waits for in the workers that serve it; those that say the same are told together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from celery_fair.cli.explain_words import at_worker, at_workers
from celery_fair.cli.explain_words import names as named
from celery_fair.front import whole_of, without_front
from celery_fair.policy.pace import Pace
from celery_fair.policy.waiting import Reason

NEVER: Final[Mapping[Reason, str]] = {
    Reason.PAUSED: "it is paused",
    Reason.NO_CONSUMER: "no worker consumes its queue",
    Reason.NO_ANSWER: "no worker that serves it answers",
    Reason.RATE_LIMIT: "its rate limit is Celery's",
    Reason.RESOURCE: "its resource says when",
    Reason.HOOK: "before_batch says when",
    Reason.DRAINING: "its worker is being emptied",
    Reason.STOPPING: "its worker ends",
    Reason.OBSERVING: "Celery's own order rules there",
    Reason.PLAIN_WORKER: "a worker without celery-fair doesn't tell",
    Reason.TIMING_OUT: "it will not run",
}
"""What no rate says anything about."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a task or a kind waits for, and in how many workers."""

    reason: Reason
    text: str
    workers: Sequence[str] = ()
    since: float | None = None


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


def untold_pauses(
    kind: str, told: Sequence[Wait], reports: Mapping[str, Mapping[str, Any]], now: float
) -> list[Wait]:
    """Pauses of a kind or its queues, where another reason was told: those queues have no other."""
    paused = {
        node: report
        for node, report in reports.items()
        if any(pause["kind"] == kind for pause in report["steering"]["paused"])
        and not any(wait.reason is Reason.PAUSED and node in wait.workers for wait in told)
    }
    return [_wait(Reason.PAUSED, kind, paused, now)] if paused else []


def _wait(reason: Reason, kind: str, nodes: Mapping[str, Mapping[str, Any]], now: float) -> Wait:
    names = sorted(nodes)
    since = [report["kinds"][kind]["since"] for report in nodes.values()]
    return Wait(
        reason,
        _text(reason, kind, nodes, now),
        names,
        min((at for at in since if at is not None), default=None),
    )


def _text(reason: Reason, kind: str, nodes: Mapping[str, Mapping[str, Any]], now: float) -> str:
    """Figures are a worker's own; one order to pause is the same for all that follow it."""
    names = sorted(nodes)
    if len(names) > 1 and reason is not Reason.PAUSED:
        return at_workers(reason, names)
    texts = {at_worker(reason, kind, report, now) for report in nodes.values()}
    if len(texts) > 1:
        return at_workers(reason, names)
    return texts.pop() if len(names) == 1 else f"{texts.pop()} ({named(names)})"


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
    if pause["queue"] is None:
        return True
    return queue is not None and pause["queue"] in (without_front(queue), whole_of(queue))


def paces(kind: str, reports: Sequence[Mapping[str, Any]]) -> list[Pace]:
    """How fast each worker serves a kind."""
    return [
        Pace(one["started_a_second"], one["slots"], one["mean_run_seconds"])
        for one in (report["kinds"][kind] for report in reports)
    ]
