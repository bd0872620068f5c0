"""What a worker tells the doctor, beyond its facts: asked seldom, and answered in a few lines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any

import celery
import kombu

from celery_fair.doctor.differences import transport_options
from celery_fair.observe.facts import tasks
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.worker import inversions

if TYPE_CHECKING:
    from celery_fair.worker.scheduler import Scheduler

LONGEST = 5
"""Tasks that are named of each kind."""


def checkup(scheduler: Scheduler) -> dict[str, Any]:
    """Times are epoch seconds; of a task there is its name, its mean run time and how many runs.

    ``running`` and ``parents`` are for `doctor.inversions`, which puts those of all workers
    together.
    """
    counted, dispatcher = tasks(scheduler), scheduler.dispatcher
    return {
        "time": time.time(),
        "versions": {"celery": celery.__version__, "kombu": kombu.__version__},
        "transport_options": transport_options(scheduler.c.app),
        "longest": {kind: _longest(kind, counted) for kind in KINDS},
        "running": inversions.running(dispatcher.slots, monotonic()),
        "parents": inversions.parents(scheduler.lanes),
    }


def _longest(kind: Kind, counted: list[dict[str, Any]]) -> list[tuple[str, float, int]]:
    means = [
        (task["task"], round(task["run_seconds"] / runs, 3), runs)
        for task in counted
        if task["kind"] == kind and (runs := _runs(task["outcomes"]))
    ]
    return sorted(means, key=lambda mean: -mean[1])[:LONGEST]


def _runs(outcomes: Mapping[str, int]) -> int:
    return sum(outcomes.values())
