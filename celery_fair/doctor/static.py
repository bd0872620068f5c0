"""What an app's own configuration tells, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.checking import checked
from celery_fair.doctor.finding import Finding, rule
from celery_fair.doctor.options import option_findings
from celery_fair.doctor.patience import patience_findings
from celery_fair.doctor.priorities import priority_findings
from celery_fair.doctor.queues import queue_findings
from celery_fair.doctor.resources import use_findings
from celery_fair.doctor.tasks import task_findings
from celery_fair.doctor.timeouts import timeout_findings
from celery_fair.errors import SettingsError

NOT_INSTALLED: Final = rule(
    "F007",
    "error",
    "no Fair in this app",
    why="Its tasks have no kinds and its workers run in Celery's own order.",
    cure="Call Fair(app) where the app is made, or name the right app with -A.",
)
SWITCHED_OFF: Final = rule(
    "F008",
    "info",
    "celery-fair is switched off",
    why="Celery works as if it were not installed.",
    cure="Set enabled to true, or take CELERY_FAIR__ENABLED out of the environment.",
)
BAD_SETTINGS: Final = rule(
    "F009",
    "error",
    "settings that can't be used",
    why="A worker refuses to start with them, and publishing raises.",
    cure="Correct each setting that is named.",
)
NOT_IMPORTED: Final = rule(
    "F022",
    "error",
    "the app's tasks can't be imported",
    why="A worker of this app ends as it starts; what is not known here was not looked at.",
    cure="Correct the module that is named, or `imports` and `include`.",
)


def app_findings(app: Any) -> list[Finding]:
    """Import the app's tasks, as a worker does at its start, and look; opens no connection."""
    found: list[Finding] = []
    try:
        app.loader.import_default_modules()
    except Exception as error:
        found.append(NOT_IMPORTED.finding(f"{type(error).__name__}: {error}"))
    return found + static_findings(app)


def static_findings(app: Any) -> list[Finding]:
    """Look at settings, tasks and queues; opens no connection and never raises for what it finds.

    Only tasks that this process has imported are seen, as in a worker at its start.
    """
    fair = Fair.of(app)
    if fair is None:
        return [NOT_INSTALLED.finding("No Fair is installed in this app")]
    try:
        enabled, _ = fair.settings.enabled, fair.queues
    except SettingsError as error:
        return [BAD_SETTINGS.finding("; ".join(error.problems))]
    if not enabled:
        return [SWITCHED_OFF.finding("celery-fair is switched off (enabled=False)")]
    return checked({about: partial(check, fair) for about, check in CHECKS.items()})


CHECKS: Final[dict[str, Callable[[Fair], Iterator[Finding]]]] = {
    "tasks": task_findings,
    "the broker's patience": patience_findings,
    "queues": queue_findings,
    "timeouts": timeout_findings,
    "resources": use_findings,
    "priorities": priority_findings,
    "Celery's own options": option_findings,
}
