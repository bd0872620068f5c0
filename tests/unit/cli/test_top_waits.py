"""The waits of now, from histograms that only grow."""

from __future__ import annotations

import pytest

from celery_fair.cli.top_waits import CELL_SECONDS, CELLS, Waits, difference
from celery_fair.observe.counts import BOUNDS, quantile
from tests.unit.cli.replies import kind, report


def histogram(**at) -> list[int]:
    """``histogram(b3=5)``: five in the third bucket."""
    counts = [0] * (len(BOUNDS) + 1)
    for name, number in at.items():
        counts[int(name[1:])] = number
    return counts


def facts(interactive=None, batch=None, **changes):
    told = report(kind("celery"), kind("celery.batch"), **changes)
    told["kinds"]["interactive"]["waits"] = {"buckets": interactive or histogram()}
    told["kinds"]["batch"]["waits"] = {"buckets": batch or histogram()}
    return told


def test_nothing_has_no_quantile():
    assert quantile((), 0.95) is None
    assert quantile(histogram(), 0.95) is None


def test_a_quantile_is_interpolated_inside_its_bucket():
    # The bucket from 0.5 to 1 s: the 95th of 100 is 19/20 of the way.
    assert quantile(histogram(b9=100), 0.95) == pytest.approx(0.975)
    # The first one begins at 0.
    assert quantile(histogram(b0=10), 0.5) == pytest.approx(0.0005)
    # Of 100, 90 come before; the 95th is half of the way from 2.5 to 5 s.
    assert quantile(histogram(b9=90, b11=10), 0.95) == pytest.approx(3.75)


def test_a_quantile_without_an_upper_end_is_the_highest_bound():
    assert quantile(histogram(b22=3), 0.95) == BOUNDS[-1]


def test_what_has_started_between_two_events_is_their_difference():
    before, after = facts(histogram(b1=5, b2=1)), facts(histogram(b1=7, b2=1))
    assert difference(before, after)["interactive"] == histogram(b1=2)
    assert difference(before, after)["batch"] == histogram()


def test_nothing_is_known_of_the_time_before_the_first_event():
    assert difference(None, facts(histogram(b1=7))) == {}


def test_a_worker_that_started_anew_has_counted_from_zero():
    before = facts(histogram(b1=500), started_at=100.0)
    after = facts(histogram(b2=3), started_at=200.0)
    assert difference(before, after)["interactive"] == histogram(b2=3)


@pytest.mark.parametrize("buckets", [[1, 2, 3], histogram(b1=4), []])
def test_what_can_not_be_a_difference_is_none(buckets):
    assert "interactive" not in difference(facts(histogram(b1=5)), facts(buckets or [0]))


def test_now_is_the_last_half_minute():
    waits = Waits()
    waits.add({"interactive": histogram(b15=50)}, at=100.0)
    waits.add({"interactive": histogram(b9=100)}, at=140.0)
    assert waits.now("interactive", 145.0) == pytest.approx(0.975)
    assert waits.now("interactive", 200.0) is None
    assert waits.now("batch", 145.0) is None


def test_a_line_has_a_quantile_for_each_cell_and_none_where_nothing_started():
    waits = Waits()
    waits.add({"batch": histogram(b9=60)}, at=100.0)
    waits.add({"batch": histogram(b9=40)}, at=109.0)
    waits.add({"batch": histogram(b0=20), "interactive": histogram()}, at=120.0)
    assert waits.line("batch", 125.0, 4) == [
        None,
        pytest.approx(0.975),
        None,
        pytest.approx(0.00095),
    ]
    assert waits.line("interactive", 125.0, 2) == [None, None]


def test_only_so_many_cells_are_kept():
    waits = Waits()
    for cell in range(CELLS + 50):
        waits.add({"batch": histogram(b9=1)}, at=cell * CELL_SECONDS)
    line = waits.line("batch", (CELLS + 49) * CELL_SECONDS, CELLS + 50)
    assert sum(wait is not None for wait in line) == CELLS
