"""The promises in the simulator: with a broker, a sensor that lags, and workers that die."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.sim import Arrivals, Outage, Scenario, Work, constant, exponential, run, uniform

FLOOD = Work(uniform(0.15, 0.25), (Arrivals(60),))
ENDLESS = Work(uniform(1.5, 2.5), backlog=50)


def outages(workers):
    times = st.floats(0.5, 20)
    outage = st.builds(
        lambda worker, at, length: Outage(worker, at, at + length),
        st.integers(0, workers - 1),
        times,
        st.floats(0.2, 6),
    )
    # One at most for each worker: it cannot die while it is dead.
    return st.lists(outage, max_size=3, unique_by=lambda outage: outage.worker).map(tuple)


@st.composite
def finite(draw):
    """A load that ends, on workers some of which die and come back."""
    workers = draw(st.integers(1, 4))
    service = st.sampled_from([constant(0.001), exponential(0.3), uniform(0.5, 3)])

    def work():
        arrivals = st.builds(
            Arrivals,
            st.sampled_from([0.0, 0.5, 5.0]),
            size=st.integers(1, 15),
            poisson=st.booleans(),
            start=st.floats(0, 10),
            until=st.floats(1, 15),
        )
        return Work(draw(service), tuple(draw(st.lists(arrivals, max_size=2))))

    start = draw(st.floats(0, 20))
    return Scenario(
        "random",
        work(),
        work(),
        workers=workers,
        slots=draw(st.integers(1, 4)),
        warmup=0,
        duration=20,
        grace=3000,
        sensor_seconds=1.0,
        poll_seconds=draw(st.sampled_from([0.0, 1.0])),
        fleet_delay_seconds=draw(st.sampled_from([None, 0.0, 1.0, 3.0])),
        outages=draw(outages(workers)),
        blind=((start, start + draw(st.floats(0, 30))),),
    )


@settings(max_examples=60)
@given(
    finite(),
    st.builds(
        PolicySettings,
        batch_share=st.sampled_from([0.1, 0.2, 0.5]),
        reserve=st.sampled_from(["auto", 0, 1, 2]),
        share_unit=st.sampled_from(["seconds", "tasks"]),
    ),
    st.integers(0, 1000),
)
def test_p5_every_message_ends_once(scenario, config, seed):
    scenario = replace(scenario, grace=60.0)
    result = run(scenario, config, seed)
    while any(task.endings == 0 for task in result.tasks) and scenario.grace < 4000:
        scenario = replace(scenario, grace=scenario.grace * 4)
        result = run(scenario, config, seed)
    assert {task.endings for task in result.tasks} <= {1}


@settings(max_examples=25)
@given(
    workers=st.sampled_from([(1, 8), (8, 1), (2, 4), (1, 1), (1, 2)]),
    share=st.sampled_from([0.1, 0.2, 0.5]),
    delay=st.sampled_from([None, 0.5, 2.0]),
    blind=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_p2_batch_gets_its_share_under_a_flood_also_when_blind(workers, share, delay, blind, seed):
    count, slots = workers
    load = Scenario(
        "flood",
        FLOOD,
        ENDLESS,
        workers=count,
        slots=slots,
        warmup=10,
        duration=30,
        fleet_delay_seconds=delay if count > 1 else None,
        blind=((0.0, 100.0),) if blind else (),
    )
    result = run(load, PolicySettings(batch_share=share), seed)
    alone = count if delay is None else 1  # without a view each worker promises for itself
    late = 0.25 + (delay or 0.0) / 2  # a slot frees, a word arrives
    fair = share * result.slots * (30 - late)
    assert result.slot_seconds(BATCH) >= fair - 2 * 2.5 * alone - 1.0
    # Interactive is not starved either.
    assert (
        result.slot_seconds(INTERACTIVE) >= (1 - share) * result.slots * 30 * 0.8 - 2.5 * 4 * alone
    )


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (1, 8), (8, 1)])
def test_batch_alone_fills_all_but_the_reserve_after_the_cold_start(shape, blind):
    load = Scenario(
        "quiet",
        Work(constant(0.05)),
        ENDLESS,
        workers=shape[0],
        slots=shape[1],
        warmup=70,
        duration=120,
        fleet_delay_seconds=1.0,
        blind=((0.0, 1000.0),) if blind else (),
    )
    result = run(load, PolicySettings())
    usable = result.slots - (1 if result.slots > 1 else 0)
    assert result.slot_seconds(BATCH) >= 0.98 * usable * 120


def test_interactive_alone_has_every_slot():
    load = Scenario("alone", FLOOD, Work(constant(1.0)), slots=8, warmup=5)
    assert run(load, PolicySettings()).share(INTERACTIVE) >= 0.99


def test_after_a_lull_interactive_tasks_find_slots_again():
    # Two minutes without any interactive task, then as many as before.
    steady = Work(constant(0.05), (Arrivals(4, until=60), Arrivals(4, start=180)))
    load = Scenario("lull", steady, Work(uniform(8, 12), backlog=20), warmup=180, duration=60)
    assert run(load, PolicySettings()).wait(INTERACTIVE) <= 0.06


def test_after_a_restart_batch_does_not_take_all_slots_before_anything_is_known():
    load = Scenario(
        "restart",
        Work(uniform(1, 5), (Arrivals(0.8),)),
        Work(uniform(500, 700), backlog=20),
        warmup=0,
        duration=50,
        outages=(Outage(0, 20.0, 21.0),),
    )
    result = run(load, PolicySettings())
    for second in range(2, 50):
        assert sum(task.started <= second < task.finished for task in result.of(BATCH)) <= 4


def test_short_interactive_tasks_keep_their_usual_slots_from_endless_batch():
    load = Scenario(
        "ratchet",
        Work(constant(0.05), (Arrivals(80),)),
        Work(uniform(500, 700), (Arrivals(0, size=20, start=30.0),)),
        warmup=120,
        duration=60,
        grace=1,
    )
    assert run(load, PolicySettings()).wait(INTERACTIVE) <= 0.25


def test_batch_of_a_millisecond_gets_its_share_too():
    load = Scenario(
        "tiny",
        Work(constant(0.05), (Arrivals(40),)),
        Work(uniform(0.0008, 0.0012), backlog=200),
        slots=1,
        warmup=2,
        duration=10,
    )
    assert run(load, PolicySettings()).share() == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("poll", [0.0, 1.0])
@pytest.mark.parametrize("delay", [0.5, 2.0])
def test_eight_workers_of_one_slot_do_as_well_as_one_of_eight(delay, poll):
    load = Scenario(
        "pods",
        Work(constant(0.05), (Arrivals(4),)),
        ENDLESS,
        workers=8,
        slots=1,
        warmup=10,
        duration=60,
        fleet_delay_seconds=delay,
        poll_seconds=poll,
    )
    result = run(load, PolicySettings())
    assert result.wait(INTERACTIVE) <= 0.2
    assert result.rate() >= 0.75 * 3.9


def test_workers_that_join_leave_and_die_starve_nobody():
    load = Scenario(
        "churn",
        FLOOD,
        ENDLESS,
        workers=8,
        slots=1,
        warmup=5,
        duration=60,
        grace=0,
        fleet_delay_seconds=1.0,
        outages=(Outage(7, 10, 20), Outage(6, 15, 22), Outage(0, 30, 40), Outage(7, 45, 50)),
    )
    result = run(load, PolicySettings())
    assert result.longest_gap() <= 3 * 2.5
    assert result.slot_seconds(BATCH) >= 0.15 * 8 * 60
    assert result.slot_seconds(INTERACTIVE) >= 0.6 * 8 * 60


ALL_APART = tuple(Outage(worker, 60.0) for worker in range(8))


@pytest.mark.parametrize("shape", [(4, 2), (8, 1)])
def test_workers_that_lose_sight_of_each_other_stay_a_fleet(shape):
    """Each of them by itself, eight of one slot have no reserve: p95 is 2.2 s."""
    load = Scenario(
        "apart",
        Work(constant(0.05), (Arrivals(4),)),
        ENDLESS,
        workers=shape[0],
        slots=shape[1],
        warmup=90,
        duration=120,
        fleet_delay_seconds=1.0,
        partitions=ALL_APART[: shape[0]],
    )
    result = run(load, PolicySettings())
    assert result.wait(INTERACTIVE) <= 0.2
    assert result.rate() >= 0.75 * 3.9


@pytest.mark.parametrize("apart", [(0,), (7,), range(8)], ids=["first", "last", "all"])
def test_in_a_flood_batch_has_its_share_while_workers_are_out_of_sight(apart):
    load = Scenario(
        "apart",
        FLOOD,
        ENDLESS,
        workers=8,
        slots=1,
        warmup=30,
        duration=90,
        grace=0,
        fleet_delay_seconds=1.0,
        partitions=tuple(Outage(worker, 20.0) for worker in apart),
    )
    share = run(load, PolicySettings()).share()
    # The others promise what the one out of sight promises too, if it is the last.
    assert 0.85 * 0.2 <= share <= 0.3


def test_a_large_fleet_whose_words_are_old_keeps_share_and_reserve():
    """Acting on what ran elsewhere so long ago batch gets 0.16; of 100 workers, 50 s ago, 0.0."""
    load = Scenario(
        "large",
        Work(uniform(0.15, 0.25), (Arrivals(180),)),
        ENDLESS,
        workers=24,
        slots=1,
        warmup=20,
        duration=30,
        grace=0,
        fleet_delay_seconds=15.0,
    )
    assert run(load, PolicySettings()).share() == pytest.approx(0.2, abs=0.03)
    quiet = replace(load, interactive=Work(constant(0.05), (Arrivals(12),)), warmup=70, grace=2)
    result = run(quiet, PolicySettings())
    assert result.wait(INTERACTIVE) <= 0.2
    assert result.rate() >= 0.75 * 11.4
