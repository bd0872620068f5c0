"""Tasks that may wait for ever, and time limits that nobody keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, rule
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind

#: What is usual, in seconds: as long as a person, or whoever fetches a result, would wait.
USUAL: Final = {INTERACTIVE: "3 to 5", BATCH: "600"}

WITHOUT_LIMITS: Final = ("threads", "eventlet", "solo")
"""Celery's pools that end no task that runs for too long."""

NO_TIMEOUT: Final = rule(
    "F011",
    "info",
    "tasks that may wait for ever",
    why="In an overload the slots are spent on answers that nobody waits for any more.",
    cure="Set interactive_timeout_seconds (3 to 5 is usual) and batch_timeout_seconds (600).",
)
UNKEPT_LIMIT: Final = rule(
    "F012",
    "warning",
    "a time limit on a pool that has none",
    why="That pool of Celery's ends no task, whoever sets the limit.",
    cure="Use the prefork pool, or a timeout inside the task; on gevent a task must yield.",
)


def timeout_findings(fair: Fair) -> Iterator[Finding]:
    missing = [kind for kind in KINDS if fair.settings.timeouts[kind] is None]
    if missing:
        yield _no_timeout(missing)
    pool = fair.app.conf.worker_pool
    if pool in WITHOUT_LIMITS:
        yield from unkept_limits(fair, pool)


def unkept_limits(fair: Fair, pool: str) -> Iterator[Finding]:
    """Time limits a kind that a pool does not know; a worker asks with the pool that it has."""
    limited = [kind for kind in KINDS if fair.settings.time_limits[kind] is not None]
    if limited:
        names = [f"{kind}_time_limit" for kind in limited]
        yield UNKEPT_LIMIT.finding(f"{' and '.join(names)} on the {pool} pool", names)


def _no_timeout(missing: list[Kind]) -> Finding:
    names = [f"{kind}_timeout_seconds" for kind in missing]
    usual = ", ".join(f"{name} = {USUAL[kind]}" for name, kind in zip(names, missing, strict=True))
    return NO_TIMEOUT.finding(
        f"{' and '.join(missing)} tasks may wait for ever",
        names,
        cure=f"Usual are {usual}: what waited longer isn't run, and fails with QueueTimeout.",
    )
