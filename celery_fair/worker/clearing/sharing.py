"""Makes the part of a worker that meets the others: it keeps places, and asks for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from celery_fair.resources.resources import Resources
from celery_fair.resources.store import Want
from celery_fair.worker.clearing.keeper import Keeper
from celery_fair.worker.clearing.orphans import Orphans
from celery_fair.worker.clearing.outage import Line, Outage
from celery_fair.worker.clearing.places import Places
from celery_fair.worker.clearing.pulse import Pulse

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

NO_PART = Line(0, 0, 1)
"""Of a worker that can't tell who else there is."""


def keeper_of(scheduler: Scheduler) -> Keeper:
    """Return what asks the store of resources for a worker, before its pool forks.

    Raises `SettingsError` where there is no Redis to keep in what workers share.
    """
    fair, resources = scheduler.fair, scheduler.fair.resources
    resources.store  # noqa: B018  raises now, and not with the first task
    # A worker that is started anew under its name has nothing of what the last one had.
    worker, pulse = f"{scheduler.c.hostname}/{os.urandom(4).hex()}", Pulse()

    def outage(held: Sequence[Want]) -> Outage:
        return Outage(resources.rules, lambda: _line(scheduler), held, monotonic)

    return Keeper(
        worker,
        lambda: resources.store,
        Places(scheduler.dispatcher.slots.taken.__contains__),
        outage,
        lambda: scheduler.dispatcher.wake(),
        pulse,
        Orphans(worker, lambda: Resources(fair).store, pulse),
    )


def _line(scheduler: Scheduler) -> Line:
    if not scheduler.measuring.has_fleet or scheduler.policy.listening:
        return NO_PART
    return Line(*scheduler.policy.line)
