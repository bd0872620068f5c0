"""The search, on a world that is known: it finds the fewest slots, and the longest piece."""

from __future__ import annotations

import math
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.advise.advice import advise
from celery_fair.advise.erlang import Stream
from celery_fair.advise.load import Load
from celery_fair.advise.measure import Candidate, Run
from celery_fair.advise.targets import Rate, parse_slo
from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.sim import Scenario, Work, constant
from celery_fair.sim.histogram import Histogram

MOST = 24
LOAD = Load(
    Scenario("known", Work(constant(1.0)), Work(constant(60.0), backlog=9)),
    {INTERACTIVE: Stream(1.0, 1.0), BATCH: Stream(0.0, 60.0)},
)
SLO = parse_slo("p95 < 10s")


def known(heavy: float, busy: float):
    """Waits fall with slots and reserve, and with shorter pieces; batch has what is left."""

    def run(load, candidate, seed):
        reserve = 1 if candidate.settings.reserve == "auto" else candidate.settings.reserve
        piece = min(candidate.yields_every or 60.0, 60.0)
        waits = Histogram()
        waits.add(heavy * piece / 6 / (1 + reserve) / candidate.slots)
        slots = max(candidate.slots - reserve - busy, 0.0)
        return Run({INTERACTIVE: waits, BATCH: Histogram()}, slots / 60, 1.0, slots, float("nan"))

    return run


def fewest(run, targets, piece=0.0):
    """By trying all there is, of what can work at all: one slot is interactive's on average."""
    wait, rate = targets
    for slots in range(math.ceil(1.0 + rate.per_second * 60), MOST + 1):
        for reserve in range(slots):
            one = run(LOAD, Candidate(slots, PolicySettings(reserve=reserve), piece), 1)
            if one.of(wait) <= wait.seconds * 0.85 and one.of(rate) >= rate.per_second * 1.15:
                return slots
    return None


@given(st.floats(0.1, 60), st.floats(0, 6), st.floats(0.5, 10))
def test_it_finds_what_trying_everything_finds(heavy, busy, batch_slots):
    targets = [*SLO, Rate(batch_slots / 60)]
    run = known(heavy, busy)
    with mock.patch("celery_fair.advise.search.run", run):
        found = advise(
            LOAD, targets, Candidate(4, PolicySettings()), cost=0.0, most_slots=MOST, least_piece=2
        )
    best = fewest(run, targets)
    assert (None if found.best is None else found.best.candidate.slots) == best
    assert not found.unsure
    pieces = fewest(run, targets, 2.0)
    if found.with_pieces is None:
        assert pieces == best
    else:
        assert found.with_pieces.candidate.slots == pieces
        assert best is None or pieces < best


def test_where_time_is_up_today_is_told_and_the_rest_is_said_to_be_unsure():
    run = known(60, 2)
    with mock.patch("celery_fair.advise.search.run", run):
        found = advise(
            LOAD, [*SLO, Rate(0.1)], Candidate(4, PolicySettings()),
            cost=1.0, most_slots=MOST, most_seconds=2.0,
        )  # fmt: skip
    assert found.today is not None
    assert found.unsure
    assert found.best is None
