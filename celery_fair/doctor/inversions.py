"""Tasks that may be waiting for their own children, over all workers and the broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS

WAITS_FOR_CHILD: Final = rule(
    "F125",
    "warning",
    "a task that may be waiting for its own children",
    why="If it asks for their results (.get()) it holds a slot for as long as they wait for one: "
    "an interactive task is then as slow as batch, and where each slot is held so, nothing ends.",
    cure="Publish them with kind='interactive', or end the task and go on in a callback (chord, "
    "link). Celery forbids .get() inside tasks unless disable_sync_subtasks=False.",
)


def inversion_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    waiting = {kind: Counter(replies.parents.get(kind, {})) for kind in KINDS}
    for checkup in replies.checkups.values():
        for kind in KINDS:
            waiting[kind].update(checkup["parents"][kind])
    old = [one for checkup in replies.checkups.values() for one in checkup["running"]]
    stuck = [one for one in old if any(waiting[kind][one["id"]] for kind in KINDS)]
    slots = sum(report["slots"]["total"] for report in replies.reports.values())
    if stuck and len(stuck) >= slots:
        yield WAITS_FOR_CHILD.finding(
            f"Every slot ({slots}) has a task whose children wait for one: {_tasks(stuck)}",
            [one["id"] for one in stuck],
            cure="Go on in a callback (chord, link) instead of .get(); to get out of it now, add a "
            "worker, or revoke one of them with terminate.",
            severity="error",
        )
        return
    inverted = [one for one in stuck if one["kind"] == INTERACTIVE and waiting[BATCH][one["id"]]]
    if inverted:
        yield WAITS_FOR_CHILD.finding(
            f"Interactive, and they may wait for batch tasks of their own: {_tasks(inverted)}",
            [one["id"] for one in inverted],
        )


def _tasks(stuck: Iterable[Mapping[str, Any]]) -> str:
    longest: dict[str, float] = {}
    for one in stuck:
        longest[one["task"]] = max(longest.get(one["task"], 0.0), one["seconds"])
    return named(f"{task} (for {seconds:.0f} s)" for task, seconds in longest.items())
