"""Tasks: without a kind, with one that doesn't exist, or with a queue of the other one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from celery_fair.app import Fair
from celery_fair.doctor.beat import entries
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.errors import UnknownKind
from celery_fair.jobs.task import way_of
from celery_fair.options import known_kind
from celery_fair.policy.kinds import Kind

logger = logging.getLogger(__name__)

BUILT_IN = ("celery.", "celery_fair.")
"""Celery's own, which keep their caller's kind, and the probe of `fair bench`, sent as both."""

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
NO_LANE: Final = rule(
    "F013",
    "warning",
    "a task's queue is mapped to no kind",
    why="Such a queue is served as one of the default_kind, whatever kind its tasks have.",
    cure="Map it in `queues` to the kind of its tasks, on workers and publishers alike.",
)


class Call(NamedTuple):
    """A way in which a task is called, as far as the app says it."""

    label: str
    name: str
    task: Any
    asked: Any
    queue: str | None

    @property
    def is_task(self) -> bool:
        """Whether nothing else stands for it: a call's task is a finding of its own."""
        return self.task is None or self.label == self.name

    def kind(self, fair: Fair) -> Kind | None:
        """The kind that somebody said; raises ``UnknownKind``."""
        if self.asked is not None:
            return known_kind(self.asked, self.label)
        return fair.kind_of_task(self.name, self.task)


def own_tasks(app: Any) -> dict[str, Any]:
    """The app's tasks in the order of their names, without Celery's own."""
    return {name: app.tasks[name] for name in sorted(app.tasks) if not name.startswith(BUILT_IN)}


def needs_state(fair: Fair) -> list[str]:
    """What of the app keeps its state in a Redis: jobs, deduplicated requests, resources."""
    tasks = own_tasks(fair.app).values()
    needs = []
    if any(way_of(task) for task in tasks) and not fair.app.conf.task_always_eager:
        needs.append("jobs")
    if fair.settings.deduplicate_seconds is not None or any(
        getattr(task, "fair_deduplicate_seconds", None) for task in tasks
    ):
        needs.append("deduplicate_seconds")
    if fair.resources.is_set:
        needs.append("resources")
    return needs


def task_findings(fair: Fair) -> Iterator[Finding]:
    unclassified: list[str] = []
    for call in _calls(fair):
        try:
            kind = call.kind(fair)
        except UnknownKind as error:
            yield UNKNOWN_KIND.finding(str(error), [call.label])
            continue
        lane = fair.lanes.get(call.queue)
        if kind is None and lane is None and call.is_task:
            unclassified.append(call.label)
        elif kind is not None and call.queue is not None:
            yield from _lane(fair, call.label, kind, call.queue)
    if unclassified:
        yield _unclassified(unclassified, fair.settings.default_kind)


def _calls(fair: Fair) -> Iterator[Call]:
    """Each task as it is called without options, then what beat calls."""
    tasks = own_tasks(fair.app)
    for name, task in tasks.items():
        yield Call(name, name, task, None, queue_of(fair, name, task))
    for entry in entries(fair):
        if entry.task.startswith(BUILT_IN):
            continue
        task, queue = tasks.get(entry.task), _name(entry.options.get("queue"))
        if queue is None:
            queue = queue_of(fair, entry.task, task)
        is_other = "kind" in entry.options or "queue" in entry.options
        if task is None or is_other:
            yield Call(entry.label, entry.task, task, entry.options.get("kind"), queue)


def _lane(fair: Fair, label: str, kind: Kind, queue: str) -> Iterator[Finding]:
    lane = fair.lanes.get(queue)
    if lane is None and kind != fair.settings.default_kind:
        yield NO_LANE.finding(
            f"{label} is {kind}, but its queue {queue!r} is mapped to no kind",
            [label],
            cure=f'Map it, queues={{"{kind}": […, "{queue}"]}}, on workers and publishers alike.',
        )
    elif lane not in (None, kind):
        yield WRONG_LANE.finding(
            f"{label} is {kind}, but its queue {queue!r} is mapped to {lane}", [label]
        )


def queue_of(fair: Fair, name: str, task: Any) -> str | None:
    """The queue that the decorator or the app's own routes name for a task."""
    own = getattr(task, "queue", None)
    return _name(route_of(fair.app, name, task).get("queue") if own is None else own)


def _name(queue: Any) -> str | None:
    """The name of a queue that may be a ``kombu.Queue``."""
    found = getattr(queue, "name", queue)
    return found if isinstance(found, str) else None


def route_of(app: Any, name: str, task: Any) -> Mapping[str, Any]:
    """What the app's own routes say of a task that is called without arguments."""
    router = app.amqp.router
    if not getattr(router, "routes", None):
        return {}
    try:
        route = router.lookup_route(name, (), {}, {}, task)
    except Exception as error:  # a router may want arguments that only a real call has
        logger.debug("no route for %s: %r", name, error)
        return {}
    return {"queue": route} if isinstance(route, str) else route or {}


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
