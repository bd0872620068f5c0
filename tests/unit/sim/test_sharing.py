"""Tenants, what workers share, and the engine, in virtual time on the worker's own objects."""

from __future__ import annotations

import math

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.resources.rules import Resource
from celery_fair.sim import Arrivals, Outage, Scenario, Work, constant, run, uniform

NOTHING = Work(constant(1.0))
SETTINGS = PolicySettings(reserve=0)


def scenario(interactive=NOTHING, batch=NOTHING, **more):
    given = {"warmup": 0, "duration": 200, "grace": 0, **more}
    return Scenario("test", interactive, batch, **given)


SMALL = tuple(Arrivals(0, size=5, tenant=f"t{number}") for number in range(10))
BIG = Arrivals(0, size=1000, tenant="big")


def last_end(result, *, but):
    return max(task.finished for task in result.tasks if task.tenant != but)


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_ten_tenants_with_five_tasks_end_within_twice_what_they_take_alone(kind):
    def ends(*arrivals, shards):
        load = Work(uniform(0.1, 0.3), arrivals)
        loads = {"interactive": load} if kind == INTERACTIVE else {"batch": load}
        return last_end(run(scenario(**loads, shards=shards, slots=4), SETTINGS), but="big")

    alone = ends(*SMALL, shards=16)
    assert ends(BIG, *SMALL, shards=16) <= 2 * alone + 0.3
    # In one queue they are behind all of the first one's, whatever is done with what is held.
    assert ends(BIG, *SMALL, shards=1) > 10 * alone


def test_without_tenants_the_order_is_that_of_publishing():
    load = scenario(batch=Work(constant(0.1), (Arrivals(0, size=30),)), slots=2, shards=4)
    starts = [task.started for task in run(load, SETTINGS).of(BATCH)]
    assert starts == sorted(starts)


def limited(places, *, workers=3, **more):
    load = Work(uniform(0.2, 0.6), (Arrivals(0, size=60),), uses=("openai",))
    return scenario(batch=load, workers=workers, slots=4,
                    resources=(Resource("openai", places),), **more)  # fmt: skip


@pytest.mark.parametrize("places", [1, 2, 5])
def test_no_more_run_than_there_are_places_and_none_stays_idle(places):
    result = run(limited(places), SETTINGS)
    assert result.most_at_once() == places
    end = max(task.finished for task in result.tasks)
    assert math.isfinite(end)
    used = sum(task.service for task in result.tasks)
    # What a look at the store, and another worker's way to it, cost.
    assert used / (places * end) > 0.85


def test_the_places_of_a_dead_worker_come_back():
    result = run(limited(2, outages=(Outage(0, at=2.0), Outage(1, at=2.0))), SETTINGS)
    assert result.most_at_once() <= 2
    assert all(task.endings == 1 for task in result.tasks)
    resumed = min(task.started for task in result.tasks if task.started > 3.0)
    assert resumed < 2.0 + 10.0 + 2.5


def test_what_has_no_place_stands_in_nobodys_way():
    interactive = Work(constant(0.05), (Arrivals(5),))
    long = Work(constant(30.0), (Arrivals(0, size=50),), uses=("openai",))
    load = scenario(interactive, long, slots=4, duration=60,
                    resources=(Resource("openai", 1),))  # fmt: skip
    result = run(load, SETTINGS)
    assert result.wait(INTERACTIVE) < 0.01
    assert len([task for task in result.of(BATCH) if task.started < 60]) == 2


def test_while_the_engine_queues_batch_has_what_is_left_of_its_share():
    batch = Work(uniform(0.5, 1.5), backlog=50)
    load = scenario(batch=batch, slots=4, duration=300, engine=((100, 200, 4.0),))
    result = run(load, PolicySettings(reserve=0, batch_share=0.2))
    assert result.slot_seconds(BATCH, 0, 100) > 0.9 * 4 * 100
    during = result.slot_seconds(BATCH, 105, 200)
    assert 0.05 * 4 * 95 - 3 <= during <= 0.05 * 4 * 95 + 3
    assert result.slot_seconds(BATCH, 201, 300) > 0.9 * 4 * 99
