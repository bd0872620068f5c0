"""The answer: what it promises of slots, seeds, impossible targets and the formula."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_fair.advise.advice import advise, needs
from celery_fair.advise.erlang import Stream, slots_for
from celery_fair.advise.load import Load, busiest
from celery_fair.advise.measure import Candidate, run
from celery_fair.advise.stretch import stated
from celery_fair.advise.targets import KeepsUp, Rate, parse_batch, parse_slo
from celery_fair.advise.verdict import judge
from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.sim import Arrivals, Scenario, Work, constant, exponential
from celery_fair.sim.trace import Arrival

SLO = parse_slo("interactive p95 < 1s")


def scenario(rate=2.0, batch_run=1.0, backlog=100_000, seconds=60.0, **more):
    return Scenario(
        "load",
        Work(exponential(0.2), (Arrivals(rate),) if rate else ()),
        Work(exponential(batch_run), backlog=backlog, **more),
        slots=4,
        warmup=20.0,
        duration=seconds,
    )


def advice(scenario, targets, *, slots=4, most=12, seconds=1.5, **settings):
    load, cost = stated(scenario, targets, is_given=True)
    today = Candidate(slots, PolicySettings(**settings))
    return load, advise(
        load, targets, today, cost=cost, most_slots=most, most_seconds=seconds, least_piece=5
    )


def test_the_first_guess_is_erlang_c_where_there_is_only_one_kind():
    load, _ = stated(scenario(rate=20, backlog=0), SLO, is_given=True)
    load = Load(load.scenario, {INTERACTIVE: Stream(20, 0.2), BATCH: Stream(0, 1)})
    for target in (SLO[0], *parse_slo("p99 < 50ms")):
        found = needs(load, [target, KeepsUp()], workers=1, margin=0.0)
        assert found.guess == slots_for(Stream(20, 0.2), target.quantile, target.seconds)


def test_what_is_advised_meets_the_target_with_other_seeds_and_with_more_slots():
    targets = [*SLO, Rate(3.0)]
    load, found = advice(scenario(), targets)
    best = found.best.candidate
    assert found.today.state != "met"
    assert best.slots > 4
    for slots in (best.slots, best.slots + 1):
        one = Candidate(slots, best.settings)
        verdict = judge(one, targets, [run(load, one, seed) for seed in range(900, 904)], 0.0)
        assert verdict.meets(), verdict.readings


def test_a_target_that_nothing_meets_is_said_to_be_so_with_what_would():
    _, found = advice(scenario(), [*SLO, Rate(6.0)], most=5)
    assert found.best is None
    assert found.needs.least > 5
    assert found.today.state == "missed"
    assert not found.unsure


def test_one_seed_never_meets_and_what_is_within_the_margin_is_not_surely_met():
    load, _ = stated(scenario(rate=0, batch_run=1.0), [Rate(1.0)], is_given=True)
    one = Candidate(4, PolicySettings(reserve=0))
    runs = [run(load, one, seed) for seed in (1, 2, 3)]
    assert judge(one, [Rate(2.0)], runs[:1], 0.15).state == "close"
    assert judge(one, [Rate(2.0)], runs, 0.15).state == "met"
    assert judge(one, [Rate(3.9)], runs, 0.15).state in ("close", "missed")
    assert judge(one, [Rate(8.0)], runs, 0.15).state == "missed"


def test_a_night_is_done_after_its_work_by_its_slots():
    night = Scenario("night", Work(constant(0.1)), Work(constant(10.0), (Arrivals(0.0, 4000),)))
    targets = [parse_batch("done in 2h", None)]
    load, _ = stated(night, targets, is_given=False)
    assert load.scale < 1
    found = run(load, Candidate(8, PolicySettings(reserve=0)), 1)
    assert found.done_seconds == pytest.approx(4000 * 10 / 8, rel=0.05)


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0.1, 10)), min_size=1, max_size=40))
@settings(max_examples=50)
def test_no_stretch_has_more_interactive_work_than_the_busiest(pairs):
    arrivals = [Arrival(at, INTERACTIVE, seconds) for at, seconds in sorted(pairs)]

    def work(start):
        return sum(one.seconds for one in arrivals if start - 1e-6 <= one.at <= start + 100 + 1e-6)

    assert work(busiest(arrivals, 100)) >= max(work(one.at) for one in arrivals) - 1e-6
