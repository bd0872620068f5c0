"""Celery as the ruler sets it up, with and without celery-fair."""

from __future__ import annotations

import os
from functools import cache

from celery import Celery
from mixed_load.bodies import journal_path, register_names
from mixed_load.contestant import Call, Contestant, load_contestant
from mixed_load.trial import worker_environment

from tests.benchmarks.others.contestants import BROKER_VARIABLE, SETUP_VARIABLE
from tests.benchmarks.others.processes import Worker

POOL = "threads"


@cache
def _setup() -> tuple[Contestant, Celery]:
    contestant = load_contestant(os.environ[SETUP_VARIABLE])
    app = contestant.make_app(os.environ[BROKER_VARIABLE])
    register_names(app)
    return contestant, app


def workers(slots: int) -> list[Worker]:
    contestant, _ = _setup()
    environment = worker_environment(
        os.environ[SETUP_VARIABLE], os.environ[BROKER_VARIABLE], journal_path()
    )
    return [
        Worker(
            ["celery", "-A", contestant.app_module, "worker", *command.arguments, "-l", "WARNING"],
            command.slots,
            environment=environment,
        )
        for command in contestant.worker_commands(slots, POOL)
    ]


def submit(kind: str, call: Call) -> None:
    contestant, app = _setup()
    if kind == "interactive":
        contestant.submit_interactive(app, call)
    else:
        contestant.submit_batch(app, call)
