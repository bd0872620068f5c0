"""Tasks: without a kind, with one that doesn't exist, or with a queue of the other one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.errors import UnknownKind
from celery_fair.policy.kinds import KINDS, Kind

logger = logging.getLogger(__name__)

BUILT_IN = "celery."

UNCLASSIFIED: Final = rule(
    "F001",
    "warning",
    "tasks that nobody gave a kind",
    why="Called from outside a task they have the default_kind; bulk work among them stands in the "
    "way of people.",
    cure="Say it where they are made, @fair_task(kind=…), or by name, "
    'kinds={"reports.*": "batch"}; kinds={"*": "interactive"} as the last entry says that the '
    "default is meant.",
)
WRONG_LANE: Final = rule(
    "F002",
    "warning",
    "a task's queue belongs to the other kind",
    why="A named queue wins, so the task is served as one of the other kind.",
    cure="Take queue= out of its decorator or route, map the queue to the task's kind in "
    "`queues`, or declare the kind that it is meant to have.",
)
UNKNOWN_KIND: Final = rule(
    "F010",
    "error",
    "a task's kind does not exist",
    why="Publishing the task raises.",
    cure="Use one of the two kinds, interactive or batch.",
)


def own_tasks(app: Any) -> dict[str, Any]:
    """The app's tasks in the order of their names, without Celery's own."""
    return {name: app.tasks[name] for name in sorted(app.tasks) if not name.startswith(BUILT_IN)}


def task_findings(fair: Fair) -> Iterator[Finding]:
    unclassified: list[str] = []
    lanes = {queue: kind for kind in KINDS for queue in fair.queues[kind]}
    for name, task in own_tasks(fair.app).items():
        try:
            kind = fair.kind_of_task(name, task)
        except UnknownKind as error:
            yield UNKNOWN_KIND.finding(str(error), [name])
            continue
        queue = _queue(fair, name, task)
        lane = lanes.get(queue or "")
        if kind is None and lane is None:
            unclassified.append(name)
        elif kind is not None and lane not in (None, kind):
            yield _wrong_lane(name, kind, str(queue), str(lane))
    if unclassified:
        yield _unclassified(unclassified, fair.settings.default_kind)


def _queue(fair: Fair, name: str, task: Any) -> str | None:
    """The queue that the decorator or the app's own routes name for a task."""
    named_queue = getattr(task, "queue", None)
    if named_queue is None:
        named_queue = _routed(fair.app, name, task)
    return getattr(named_queue, "name", named_queue)


def _routed(app: Any, name: str, task: Any) -> Any:
    router = app.amqp.router
    if not getattr(router, "routes", None):
        return None
    try:
        route = router.lookup_route(name, (), {}, {}, task)
    except Exception as error:  # a router may want arguments that only a real call has
        logger.debug("no route for %s: %r", name, error)
        return None
    return route if isinstance(route, str) else (route or {}).get("queue")


def _wrong_lane(name: str, kind: Kind, queue: str, lane: str) -> Finding:
    return WRONG_LANE.finding(
        f"{name} is {kind}, but its queue {queue!r} is mapped to {lane}", [name]
    )


def _unclassified(names: list[str], default: Kind) -> Finding:
    number = f"{len(names)} tasks have" if len(names) > 1 else "1 task has"
    return UNCLASSIFIED.finding(
        f"{number} no kind: {named(names)}",
        names,
        why=f"Called from outside a task they are {default} (default_kind); bulk work among them "
        f"stands in the way of people.",
        cure="Say it where they are made, @fair_task(kind=…), or by name, "
        f'kinds={{"reports.*": "batch"}}; kinds={{"*": "{default}"}} as the last entry says that '
        f"the default is meant.",
    )
