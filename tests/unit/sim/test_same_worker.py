"""The simulated worker does what the real one does: its own dispatcher runs beside it here.

Who changes the one and not the other is told by these, with the load on which they differ.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from celery_fair.policy import PolicySettings
from celery_fair.sim import Arrivals, FairSetup, Scenario, Work, constant, exponential, run, uniform
from celery_fair.sim import worker as simulated
from celery_fair.sim.words import FRESH_SECONDS
from celery_fair.worker import fleet, lanes
from tests.unit.sim.dispatching import Dispatchers

ROUND_TRIP_SECONDS = 0.0004
"""Silence means something after a millisecond: so it never ends as a message comes."""


def load(name, interactive, batch, **more):
    given = {"slots": 4, "warmup": 0, "duration": 20, "grace": 5, **more}
    return Scenario(name, interactive, batch, round_trip_seconds=ROUND_TRIP_SECONDS, **given)


STEADY = load("steady", Work(constant(0.05), (Arrivals(4),)), Work(uniform(1.5, 2.5), backlog=40))
BURSTS = load(
    "bursts",
    Work(constant(0.05), (Arrivals(0.5, size=20, poisson=False),)),
    Work(exponential(1.0), backlog=40),
)
FULL = load(
    "full", Work(exponential(0.1), (Arrivals(30),)), Work(uniform(0.2, 0.6), (Arrivals(7),))
)
FLOOD = load("flood", Work(exponential(0.1), (Arrivals(60),)), Work(uniform(0.2, 0.6), backlog=20))
TINY = load(
    "tiny", Work(constant(0.05), (Arrivals(20),)), Work(uniform(0.001, 0.003), backlog=50),
    slots=2, duration=3,
)  # fmt: skip
LONG = load(
    "long", Work(uniform(1, 5), (Arrivals(0.8),)), Work(uniform(5, 15), backlog=20),
    slots=8, duration=60,
)  # fmt: skip
PODS = replace(STEADY, name="pods", workers=8, slots=1, fleet_delay_seconds=1.0)
TENANTS = load(
    "tenants",
    Work(constant(0.05), (Arrivals(4),)),
    Work(uniform(0.2, 0.6), (*(Arrivals(3, tenant=name) for name in "abc"), Arrivals(0, size=20))),
)
CASES = [
    (STEADY, {}),
    (BURSTS, {}),
    (FULL, {"reserve": 0}),
    (FULL, {"share_unit": "tasks"}),
    (FLOOD, {}),
    (FLOOD, {"reserve": 0, "interactive_max_slots": 2}),
    (FLOOD, {"batch_max_slots": 1}),
    (TINY, {}),
    (LONG, {}),
    (PODS, {}),
    (TENANTS, {}),
]


def starts(result):
    return [(task.kind, task.published, task.started) for task in result.tasks]


@pytest.mark.parametrize("pushes", [False, True], ids=["redis", "rabbitmq"])
@pytest.mark.parametrize(
    ("case", "settings"), CASES, ids=[f"{case.name}-{'-'.join(given)}" for case, given in CASES]
)
def test_each_task_starts_when_the_workers_own_dispatcher_starts_it(
    case, settings, pushes, monkeypatch
):
    case = replace(case, pushes=pushes, poll_seconds=0.0 if pushes else 1.0)
    policy = PolicySettings(**settings)
    own = run(case, Dispatchers(policy, monkeypatch=monkeypatch))
    assert starts(run(case, FairSetup(policy))) == starts(own)


def test_what_the_simulator_may_not_import_is_as_the_worker_has_it():
    assert simulated.DOUBT_SECONDS == lanes.DOUBT_SECONDS
    assert FRESH_SECONDS == fleet.FRESH_SECONDS
    assert Scenario("", FULL.interactive, FULL.batch).waiting_room == lanes.ROOM_LIMIT
