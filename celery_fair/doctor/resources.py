"""What tasks share: names that are wrong, limits that limit nothing, engines that don't answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies
from celery_fair.doctor.tasks import own_tasks
from celery_fair.errors import SettingsError
from celery_fair.observe.resources import newest
from celery_fair.resources.uses import declared_tokens

UNKNOWN: Final = rule(
    "F023",
    "error",
    "a task uses a resource that there is not",
    why="A worker of this app refuses to start: nobody could say how much of it there is.",
    cure="Add it to `resources`, or correct the name.",
)
UNUSED: Final = rule(
    "F024",
    "info",
    "a resource that no task uses",
    why="Its limits hold for nobody that this process knows.",
    cure='Say who uses it, @fair_task(uses="…") or uses={"reports.*": "…"}, or take it out.',
)
NO_ESTIMATE: Final = rule(
    "F025",
    "warning",
    "tokens are budgeted, and a task says nothing of its own",
    why="Such a task starts as if it used none, and pays when it charges: many of them at once "
    "take the budget far under 0, and all wait until it is back.",
    cure="Say what a call usually takes, @fair_task(uses=…, tokens=800) or a function of its "
    "arguments; what it really took, fair.charge(tokens=…) tells.",
)
LIMITS_NOTHING: Final = rule(
    "F133",
    "info",
    "a limit that the slots can't reach",
    why="The workers that answer have no more slots than it has places: it never holds up a task.",
    cure="Lower max_running, if it was meant to limit; else it is for workers to come.",
)
NO_PRESSURE: Final = rule(
    "F134",
    "warning",
    "a load probe that gives no answer",
    why="Batch goes on as without a probe, however full the engine is.",
    cure="See what the worker's log says of it; try the probe by hand where the worker runs.",
)


def use_findings(fair: Fair) -> Iterator[Finding]:
    """What the app alone tells."""
    resources = fair.resources
    try:
        resources.check()
    except SettingsError as error:
        yield from (UNKNOWN.finding(problem) for problem in error.problems)
    except ValueError as error:  # no name at all
        yield UNKNOWN.finding(str(error))
    used: dict[str, list[str]] = {name: [] for name in fair.settings.resources}
    for name, task in own_tasks(fair.app).items():
        try:
            names = resources.using.names_of(name, task)
        except ValueError:  # told above
            continue
        for resource in names:
            used.setdefault(resource, []).append(name)
    # Globs may be for tasks that only other processes know.
    named_by_globs = {one for names in fair.settings.uses.values() for one in names}
    unused = [name for name, tasks in used.items() if not tasks and name not in named_by_globs]
    if unused:
        yield UNUSED.finding(f"No task uses {named(unused)}", unused)
    yield from _without_estimate(fair, used)


def _without_estimate(fair: Fair, used: dict[str, list[str]]) -> Iterator[Finding]:
    tasks = own_tasks(fair.app)
    for name, one in fair.settings.resources.items():
        if one.tokens_per_minute is None:
            continue
        silent = [task for task in used[name] if declared_tokens(tasks[task]) is None]
        if silent:
            yield NO_ESTIMATE.finding(f"No tokens are said for {named(silent)} ({name})", silent)


def shared_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    """What workers tell of it."""
    slots = sum(report["slots"]["total"] for report in replies.reports.values())
    idle = [
        f"{one['name']} ({one['max_running']} places, {slots} slots)"
        for one in newest(replies.reports)["of"]
        if one["max_running"] is not None and one["max_running"] >= slots
    ]
    if idle:
        yield LIMITS_NOTHING.finding(f"More places than slots: {named(idle)}", idle)
    silent = {
        node: engine["failing"] or "no answer yet"
        for node, report in replies.reports.items()
        if (engine := report.get("engine") or {}).get("unknown")
    }
    if silent:
        shown = named(f"{node} ({why})" for node, why in silent.items())
        yield NO_PRESSURE.finding(f"Nothing is heard of the load probe: {shown}", silent)
