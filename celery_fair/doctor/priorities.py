"""Message priorities and the order of queues, which brokers understand in their own ways."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.patience import kind_of
from celery_fair.doctor.queues import driver_type, lane_queues
from celery_fair.doctor.tasks import own_tasks, queue_of, route_of
from celery_fair.policy.kinds import KINDS

PRIORITY: Final = rule(
    "F014",
    "info",
    "a priority that isn't what it looks like",
    why="On Redis 0 goes first and a message without a priority counts as 0; RabbitMQ serves the "
    "highest first, and only where the queue has x-max-priority. Kinds need neither.",
    cure="Say what is urgent by its kind, and take the priority out.",
)
STRICT_ORDER: Final = rule(
    "F015",
    "info",
    "a kind's queues are served in a strict order",
    why="The later ones get nothing while an earlier one has messages; within a kind celery-fair "
    "leaves the order of queues to kombu.",
    cure='Take queue_order_strategy out of broker_transport_options ("round_robin" is the default) '
    "if that isn't meant.",
)

#: kombu's own for Redis; a priority means the step that it reaches.
PRIORITY_STEPS: Final = (0, 3, 6, 9)

STRICT: Final = ("priority", "sorted")


def priority_findings(fair: Fair) -> Iterator[Finding]:
    driver, options = driver_type(fair.app), fair.app.conf.broker_transport_options or {}
    if driver == "redis":
        yield from _behind_all_others(fair, options)
    elif driver == "amqp":
        yield from _without_effect(fair)
    strategy = options.get("queue_order_strategy")
    several = [kind for kind in KINDS if len(fair.queues[kind]) > 1]
    if strategy in STRICT and several and driver != "amqp":
        yield STRICT_ORDER.finding(
            f"queue_order_strategy is {strategy!r}, and "
            + "; ".join(f"{kind} has the queues {named(fair.queues[kind])}" for kind in several)
        )


def _priorities(fair: Fair) -> dict[str, int]:
    """The priority of each task that has one without being called with one."""
    app = fair.app
    found = {
        name: next(
            (
                said
                for said in (
                    getattr(task, "priority", None),
                    route_of(app, name, task).get("priority"),
                    app.conf.task_default_priority,
                )
                if said is not None
            ),
            None,
        )
        for name, task in own_tasks(app).items()
    }
    return {name: priority for name, priority in found.items() if isinstance(priority, int)}


def _behind_all_others(fair: Fair, options: Mapping[str, Any]) -> Iterator[Finding]:
    steps = sorted(options.get("priority_steps") or PRIORITY_STEPS)
    late = {
        name: priority
        for name, priority in _priorities(fair).items()
        if steps[max(bisect(steps, priority) - 1, 0)] > steps[0]
    }
    if late:
        shown = named(f"{name} ({priority})" for name, priority in late.items())
        yield PRIORITY.finding(
            f"on Redis these go behind all without a priority: {shown}",
            late,
            why="There 0 goes first, and a message without a priority counts as 0: a high number "
            "is the opposite of what it is on RabbitMQ.",
        )


def _without_effect(fair: Fair) -> Iterator[Finding]:
    queues = lane_queues(fair)
    ignored = [
        name
        for name in _priorities(fair)
        if (queue := queues.get(_sent_to(fair, name))) is not None and not _has_priorities(queue)
    ]
    if ignored:
        yield PRIORITY.finding(
            f"RabbitMQ ignores the priority of {named(ignored)}",
            ignored,
            why="Their queue was declared without x-max-priority, and there it means nothing.",
        )


def _sent_to(fair: Fair, name: str) -> str:
    task = fair.app.tasks[name]
    return queue_of(fair, name, task) or fair.queues[kind_of(fair, name, task)][0]


def _has_priorities(queue: Any) -> bool:
    """Quorum queues have two priorities of their own since RabbitMQ 4."""
    arguments = queue.queue_arguments or {}
    is_quorum = arguments.get("x-queue-type") == "quorum"
    return bool(is_quorum or queue.max_priority or arguments.get("x-max-priority"))
