"""What the workers' answers tell, given the app's own settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.checking import checked
from celery_fair.doctor.clocks import clock_findings
from celery_fair.doctor.consumers import consumer_findings
from celery_fair.doctor.differences import difference_findings
from celery_fair.doctor.finding import Finding, rule
from celery_fair.doctor.gates import gate_findings
from celery_fair.doctor.inversions import inversion_findings
from celery_fair.doctor.losses import loss_findings
from celery_fair.doctor.orders import order_findings
from celery_fair.doctor.plain import celery_findings
from celery_fair.doctor.redis import redis_findings
from celery_fair.doctor.replies import Replies
from celery_fair.doctor.reserves import reserve_findings
from celery_fair.doctor.resources import shared_findings
from celery_fair.doctor.results import result_findings
from celery_fair.doctor.runs import run_findings
from celery_fair.doctor.shards import shard_findings
from celery_fair.doctor.stranded import kind_findings, stranded_findings

UNREACHABLE: Final = rule(
    "F101",
    "error",
    "the broker can't be asked",
    why="What workers consume, and with which settings, was not checked.",
    cure="Run this where the broker can be reached, or with --no-broker.",
)
NO_WORKER: Final = rule(
    "F102",
    "warning",
    "no worker answers",
    why="What workers consume, and with which settings, was not checked.",
    cure="Start them and ask again; --timeout gives busy ones more time.",
)
Check = Callable[[Fair, Replies], Iterator[Finding]]

CHECKS: Final[dict[str, Check]] = {
    "who consumes which queue": consumer_findings,
    "queues of two kinds": kind_findings,
    "messages that nobody takes": stranded_findings,
    "shards": shard_findings,
    "differences between workers": difference_findings,
    "orders": order_findings,
    "Celery's own pools and windows": celery_findings,
    "gates": gate_findings,
    "reserves": reserve_findings,
    "run times": run_findings,
    "tasks that come back": loss_findings,
    "tasks that wait for their children": inversion_findings,
    "results": result_findings,
    "what workers share": shared_findings,
    "clocks": clock_findings,
    "Redis": redis_findings,
}


def live_findings(fair: Fair, replies: Replies) -> list[Finding]:
    """Compare the workers with the app and with each other; never raises for what they say."""
    bound = {about: partial(check, fair, replies) for about, check in CHECKS.items()}
    return checked(bound, replies.unchecked)
