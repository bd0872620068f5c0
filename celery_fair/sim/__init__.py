"""A discrete-event simulator: the worker's own policy in virtual time."""

from celery_fair.sim.result import Result, Task
from celery_fair.sim.run import run
from celery_fair.sim.scenario import (
    Arrivals,
    Outage,
    Scenario,
    Work,
    constant,
    exponential,
    uniform,
)

__all__ = [
    "Arrivals",
    "Outage",
    "Result",
    "Scenario",
    "Task",
    "Work",
    "constant",
    "exponential",
    "run",
    "uniform",
]
