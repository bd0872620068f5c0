"""The simulator itself: a broker, workers and a clock that jumps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, PolicySettings
from celery_fair.sim import Arrivals, Outage, Scenario, Work, constant, exponential, run, uniform

NOTHING = Work(constant(1.0))
DEFAULT = PolicySettings(reserve=1)


def scenario(interactive=NOTHING, batch=NOTHING, **more):
    return Scenario("test", interactive, batch, **{"warmup": 0, "duration": 20, **more})


def test_a_task_alone_starts_after_a_round_trip():
    result = run(scenario(Work(constant(0.5), (Arrivals(0, start=2.0),))), DEFAULT)
    (task,) = result.tasks
    assert task.started == pytest.approx(2.0005)
    assert task.finished == pytest.approx(2.5005)
    assert result.wait(INTERACTIVE) == pytest.approx(0.0005)


def test_the_same_seed_gives_the_same_run():
    load = scenario(
        Work(exponential(0.2), (Arrivals(5),)), Work(uniform(0.5, 1), backlog=9), slots=3
    )
    first, second, other = (run(load, DEFAULT, seed) for seed in (1, 1, 2))
    assert first.waits(INTERACTIVE) == second.waits(INTERACTIVE)
    assert first.waits(INTERACTIVE) != other.waits(INTERACTIVE)


def test_arrivals_do_not_depend_on_the_settings():
    load = scenario(Work(constant(0.2), (Arrivals(5),)), Work(constant(1), backlog=9), slots=3)
    times = [
        [task.published for task in run(load, settings).of(INTERACTIVE)]
        for settings in (DEFAULT, PolicySettings(reserve=0, batch_share=0.5))
    ]
    assert times[0] == times[1]


def test_fixed_bursts_come_at_fixed_times():
    work = Work(constant(0.01), (Arrivals(0.2, size=3, poisson=False, until=12.0),))
    times = [task.published for task in run(scenario(work), DEFAULT).tasks]
    assert times == [2.5] * 3 + [7.5] * 3


def test_batch_alone_keeps_all_slots_but_the_reserve_busy():
    result = run(scenario(batch=Work(constant(1.0), backlog=9), slots=4), DEFAULT)
    assert result.slot_seconds(BATCH) / 20 == pytest.approx(3, rel=0.01)
    assert result.utilisation == pytest.approx(0.75, rel=0.01)


def test_a_wait_that_never_ended_counts_up_to_the_end():
    load = scenario(Work(constant(100.0), (Arrivals(0, size=3),)), slots=1, duration=10, grace=5)
    assert run(load, DEFAULT).waits(INTERACTIVE)[1:] == [15.0, 15.0]


def test_the_longest_gap_counts_from_the_edges_of_the_window():
    load = scenario(batch=Work(constant(0.1), (Arrivals(0, start=5.0),)), duration=20)
    assert run(load, DEFAULT).longest_gap() == pytest.approx(15, rel=0.01)


def test_a_dead_workers_messages_go_back_and_end_once():
    load = scenario(
        batch=Work(constant(2.0), (Arrivals(0, size=6),)),
        workers=2,
        slots=2,
        outages=(Outage(0, at=1.0, until=3.0),),
    )
    result = run(load, DEFAULT)
    assert [task.endings for task in result.tasks] == [1] * 6
    assert result.cut_short[BATCH] > 0


def test_a_poll_outlives_its_credit():
    # The one slot is taken by batch; a poll sent before still catches the interactive message.
    load = scenario(
        Work(constant(0.1), (Arrivals(0, start=0.5),)),
        Work(constant(10.0), (Arrivals(0, start=0.1),)),
        slots=1,
    )
    settings = PolicySettings(reserve=0)
    (task,) = run(load, settings).of(INTERACTIVE)
    assert task.received > 10
    (task,) = run(replace(load, poll_seconds=1.0), settings).of(INTERACTIVE)
    assert task.received < 1


def test_nothing_published_is_no_wait():
    result = run(scenario(), DEFAULT)
    assert all(math.isnan(result.wait(kind)) for kind in KINDS)
    assert result.rate() == 0
