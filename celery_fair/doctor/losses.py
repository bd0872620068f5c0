"""Tasks that end their child again and again, and what piles up in a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies
from celery_fair.observe.total import total
from celery_fair.policy.kinds import KINDS

COMES_BACK: Final = rule(
    "F116",
    "warning",
    "a task that ends its child again and again",
    why="With acks_late and reject_on_worker_lost a task that is killed (out of memory, mostly) "
    "comes back for ever, and takes a slot each time.",
    cure="Revoke it (`celery control revoke ID`); bound it by retry_on_worker_lost with "
    "max_retries (Celery 5.7), or by a queue with a delivery limit.",
)
MANY_SCHEDULED: Final = rule(
    "F117",
    "warning",
    "thousands of tasks with an ETA in one worker",
    why="A worker keeps each of them in memory until it is due, and all of them come back to the "
    "next one when it is killed.",
    cure="Set worker_eta_task_limit: a lane then stops at it, and goes on when one is due.",
)

AGAIN: Final = 3
MANY: Final = 5_000


def loss_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    back = [one for one in total(replies.reports)["ended_by_pool"] if one["times"] >= AGAIN]
    if back:
        shown = named(f"{one['task']}[{one['id']}] {one['times']} times" for one in back)
        yield COMES_BACK.finding(
            f"Lost its child, or overran its time limit: {shown}", [one["id"] for one in back]
        )
    limit = fair.app.conf.get("worker_eta_task_limit")
    many = {
        node: scheduled
        for node, report in replies.reports.items()
        if (scheduled := sum(report["kinds"][kind]["scheduled"] for kind in KINDS)) >= MANY
    }
    if many and not limit:
        shown = named(f"{number} on {node}" for node, number in many.items())
        yield MANY_SCHEDULED.finding(f"Tasks that wait for their time: {shown}", many)
