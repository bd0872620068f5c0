"""Plain Celery in virtual time: each way to serve two kinds, against what is known of it."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, PolicySettings
from celery_fair.sim import (
    PLAIN,
    Arrivals,
    FairSetup,
    Outage,
    PlainSetup,
    Scenario,
    Work,
    constant,
    exponential,
    run,
    uniform,
)
from celery_fair.sim.experiment import simulate
from celery_fair.sim.plain import Window

FAIR = FairSetup()
SETUPS = [FAIR, *PLAIN.values()]
NOTHING = Work(constant(1.0))


def scenario(interactive=NOTHING, batch=NOTHING, **more):
    return Scenario("test", interactive, batch, **{"warmup": 0, "duration": 20, **more})


def erlang_c(slots, offered):
    """The chance to wait in M/M/c (A. K. Erlang, 1917), by the recursion for its blocking."""
    blocked = 1.0
    for servers in range(1, slots + 1):
        blocked = offered * blocked / (servers + offered * blocked)
    return blocked / (1 - offered / slots * (1 - blocked))


@pytest.mark.parametrize(
    ("setup", "slots", "load"),
    [
        (FAIR, 1, 0.5),
        (FAIR, 4, 0.8),
        (PLAIN["fifo"], 1, 0.5),
        (PLAIN["fifo"], 4, 0.8),
        (PLAIN["strict-late"], 4, 0.8),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_waits_are_those_of_erlang_c(setup, slots, load):
    """The formula lies in the 99 % band of four seeds (Student, 3 degrees of freedom)."""
    service = 0.2
    rate = load * slots / service
    case = scenario(
        Work(exponential(service), (Arrivals(rate),)),
        slots=slots, warmup=20, duration=6000 / rate, round_trip_seconds=1e-5, sensor_seconds=5.0,
    )  # fmt: skip
    expected = erlang_c(slots, load * slots) * service / (slots * (1 - load))
    means = [simulate(case, setup, seed).of[INTERACTIVE].waits.mean for seed in range(1, 5)]
    spread = statistics.stdev(means) / math.sqrt(len(means))
    assert abs(statistics.fmean(means) - expected) <= 5.84 * spread + 1e-4
    assert spread < 0.1 * expected


@settings(max_examples=30, deadline=None)
@given(
    setup=st.sampled_from(SETUPS),
    seed=st.integers(0, 1000),
    workers=st.integers(1, 3),
    slots=st.integers(2, 4),
    pushes=st.booleans(),
    yields=st.sampled_from([0.0, 0.2]),
    outage=st.booleans(),
)
def test_what_comes_starts_once_and_ends_once(setup, seed, workers, slots, pushes, yields, outage):
    case = scenario(
        Work(exponential(0.2), (Arrivals(2), Arrivals(0, size=9, start=3.0))),
        Work(uniform(0.5, 2), (Arrivals(0.5), Arrivals(0, size=5)), yields_every=yields),
        workers=workers, slots=slots, grace=80, pushes=pushes,
        outages=(Outage(0, 4.0, 6.0),) if outage else (),
    )  # fmt: skip
    trial = simulate(case, setup, seed)
    for kind in KINDS:
        of, published = trial.of[kind], trial.published[kind]
        assert of.ended == published
        assert of.started == of.ended + of.interrupted
        assert of.waits.count == published
        assert not of.never_started


@settings(max_examples=15, deadline=None)
@given(setup=st.sampled_from(SETUPS), seed=st.integers(0, 1000), slots=st.integers(2, 8))
def test_no_more_run_than_there_are_slots_and_the_seed_is_all_that_chance_has(setup, seed, slots):
    case = scenario(
        Work(exponential(0.2), (Arrivals(5),)), Work(uniform(0.5, 1), backlog=9), slots=slots
    )
    assert run(case, setup, seed).most_at_once() <= slots
    first, second = (simulate(case, setup, seed) for _ in range(2))
    assert (first.busy, first.published) == (second.busy, second.published)
    assert first.of[INTERACTIVE].waits.buckets == second.of[INTERACTIVE].waits.buckets


@pytest.mark.parametrize("name", ["fifo", "two-queues", "strict-late"])
def test_no_slot_idles_while_anything_waits(name):
    case = scenario(
        Work(exponential(0.2), (Arrivals(2),)), Work(uniform(0.5, 1), backlog=20),
        slots=4, round_trip_seconds=1e-6,
    )  # fmt: skip
    assert simulate(case, PLAIN[name]).utilisation == pytest.approx(1.0, abs=0.001)


def test_in_one_queue_interactive_tasks_wait_behind_all_batch():
    case = scenario(
        Work(constant(0.01), (Arrivals(0, start=1.0),)), Work(constant(1.0), (Arrivals(0, 40),)),
        slots=4, grace=30,
    )  # fmt: skip
    (task,) = run(case, PLAIN["fifo"]).of(INTERACTIVE)
    assert task.wait == pytest.approx(9.0, abs=0.1)


def test_early_acks_hold_a_window_of_tasks_beside_those_that_run():
    case = scenario(
        Work(constant(0.01), (Arrivals(0, start=0.5),)), Work(constant(1.0), (Arrivals(0, 40),)),
        slots=2, grace=30,
    )  # fmt: skip
    waits = {
        name: run(case, PlainSetup(name, strict=True, window=window)).of(INTERACTIVE)[0].wait
        for name, window in {
            "late": Window(1, late=True), "early": Window(1), "four": Window(4)
        }.items()
    }  # fmt: skip
    # Two run, so many are held before it: none, a round of two, four rounds.
    assert waits == pytest.approx({"late": 0.5, "early": 1.5, "four": 4.5}, abs=0.05)


def test_queues_in_turn_give_each_every_other_message():
    endless = (Arrivals(0, 200),)
    case = scenario(Work(constant(0.1), endless), Work(constant(0.1), endless), slots=2, duration=5)
    in_turn, strict = (simulate(case, PLAIN[name]) for name in ("two-queues", "strict"))
    assert in_turn.of[BATCH].ended == pytest.approx(in_turn.of[INTERACTIVE].ended, abs=4)
    assert strict.of[BATCH].ended == 0


def test_a_dedicated_worker_leaves_its_slots_idle_for_the_other_kind():
    case = scenario(NOTHING, Work(constant(1.0), backlog=20), slots=8)
    assert simulate(case, PLAIN["dedicated"]).share(BATCH) == pytest.approx(0.75, rel=0.01)
    assert simulate(case, PLAIN["reserved-slot"]).share(BATCH) == pytest.approx(7 / 8, rel=0.01)
    only = simulate(case, PLAIN["interactive-only"])
    assert only.utilisation == 0


def test_a_broker_that_pushes_fills_the_window_at_once():
    case = scenario(Work(constant(1.0), (Arrivals(0, 40),)), slots=8, round_trip_seconds=0.1)
    first = {
        pushes: max(
            task.started
            for task in run(replace(case, pushes=pushes), PLAIN["strict"]).tasks[:8]
        )
        for pushes in (False, True)
    }  # fmt: skip
    assert first[True] == pytest.approx(0.1)
    assert first[False] == pytest.approx(0.8)


def test_a_broker_that_pushes_serves_idle_workers_in_turn():
    """As RabbitMQ does: else the first of them would hold what the second could run."""
    burst = Work(constant(1.0), (Arrivals(0, 4, start=1.0),))
    case = scenario(burst, workers=2, slots=1, pushes=True)
    assert max(task.wait for task in run(case, PLAIN["fifo"]).tasks) == pytest.approx(1, abs=0.01)


def test_batch_has_what_interactive_may_not_have():
    flood = Work(exponential(0.1), (Arrivals(60),))
    case = scenario(flood, Work(uniform(0.2, 0.6), backlog=20), slots=8, warmup=5)
    found = simulate(case, FairSetup(PolicySettings(reserve=0, interactive_max_slots=4)))
    assert found.utilisation > 0.99


def test_batch_that_yields_hands_its_slot_over_at_the_end_of_a_piece():
    interactive = Work(constant(0.05), (Arrivals(0.5, size=4, poisson=False),))
    case = scenario(interactive, Work(constant(10.0), backlog=9), slots=4, warmup=20, duration=40)
    setup = FairSetup(PolicySettings(reserve=0))
    whole = simulate(case, setup)
    pieces = simulate(replace(case, batch=replace(case.batch, yields_every=0.1)), setup)
    assert pieces.of[BATCH].interrupted > 0
    assert whole.of[INTERACTIVE].waits.quantile(0.95) > 1.0
    assert pieces.of[INTERACTIVE].waits.quantile(0.95) < 0.3
    assert pieces.share(BATCH) > 0.9 * whole.share(BATCH)


def test_sums_of_words_are_what_each_worker_would_add_up():
    """From 16 workers on sums are kept: 15 and 17 of them do alike."""

    def share(workers):
        case = scenario(
            Work(uniform(0.15, 0.25), (Arrivals(7.5 * workers),)),
            Work(uniform(1.5, 2.5), backlog=99),
            workers=workers, slots=1, warmup=5, duration=15, fleet_delay_seconds=1.0,
        )  # fmt: skip
        return simulate(case, FairSetup(PolicySettings(batch_share=0.3))).share(BATCH)

    assert share(17) == pytest.approx(share(15), abs=0.06)
