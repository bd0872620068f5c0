"""A discrete-event simulator: the worker's own policy in virtual time."""

from celery_fair.sim.result import Result
from celery_fair.sim.run import run
from celery_fair.sim.scenario import (
    Arrivals,
    Outage,
    Scenario,
    Work,
    constant,
    empirical,
    exponential,
    lognormal,
    uniform,
)
from celery_fair.sim.setups import PLAIN, FairSetup, PlainSetup
from celery_fair.sim.task import Task

__all__ = [
    "PLAIN",
    "Arrivals",
    "FairSetup",
    "Outage",
    "PlainSetup",
    "Result",
    "Scenario",
    "Task",
    "Work",
    "constant",
    "empirical",
    "exponential",
    "lognormal",
    "run",
    "uniform",
]
