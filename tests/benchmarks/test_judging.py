"""The judges, on numbers made up."""

from __future__ import annotations

import pytest

from tests.benchmarks import figures, judging, results
from tests.benchmarks.judging import Measurement


def measured(broker="redis", **contestants):
    load = {"slots": 8, "duration": 10.0, "batch_service": "1.5-2.5"}
    names = {name.replace("_late", "-late"): found for name, found in contestants.items()}
    return Measurement(broker, load, names)


def mixed(p95=0.1, rate=1.0, *, bound=False, **more):
    return {
        "wait_p95": p95,
        "lower_bounds": ["p95"] if bound else [],
        "batch_per_second": rate,
        **more,
    }


def test_a_wait_is_within_its_factor_of_the_peers():
    check = judging.p95_within("fair", 1.15, "peer")
    assert check.judge(measured(fair=mixed(0.114), peer=mixed(0.1))).passed
    found = check.judge(measured(fair=mixed(0.12), peer=mixed(0.1)))
    assert not found.passed
    assert found.text == "p95 0.120 s against 0.100 s (× 1.20)"


def test_a_wait_that_never_ended_is_within_nothing():
    check = judging.p95_within("fair", 2, "peer")
    assert not check.judge(measured(fair=mixed(0.1, bound=True), peer=mixed(0.1))).passed
    assert check.judge(measured(fair=mixed(0.1), peer=mixed(0.1, bound=True))).passed


def test_one_of_two_bounds_is_enough():
    check = judging.any_of(judging.p95_within("fair", 2, "peer"), judging.p95_at_most("fair", 0.01))
    assert check.judge(measured(fair=mixed(0.009), peer=mixed(0.001))).passed
    assert not check.judge(measured(fair=mixed(0.011), peer=mixed(0.001))).passed


@pytest.mark.parametrize(("rate", "passed"), [(0.61, True), (0.59, False)])
def test_the_guarantee_allows_for_two_tasks(rate, passed):
    # 0.2 × 8 slots × 10 s are 16 slot-seconds; less two tasks of 2 s, 12; at 2 s each, 0.6/s
    check = judging.guaranteed_less_two_tasks("fair", 0.2)
    assert check.judge(measured(fair=mixed(rate=rate))).passed is passed


def test_overhead_is_compared_round_by_round():
    def rounds(*pairs):
        names = ("consumed_per_second", "cpu_microseconds_per_task")
        return {"rounds": [dict(zip(names, pair, strict=True)) for pair in pairs]}

    found = {
        "fifo": rounds((1000, 900), (500, 1800), (1000, 900)),
        "fair": rounds((980, 920), (490, 1820), (990, 930)),
    }
    assert (
        judging.throughput_within("fair", {"redis": 0.97}, "fifo").judge(measured(**found)).passed
    )
    found_cpu = judging.added_cpu_within("fair", {"redis": 25}, "fifo").judge(measured(**found))
    assert found_cpu.passed
    assert found_cpu.text == "930 µs against 900 µs a task (+20 µs)"


def test_every_run_has_its_contestants_and_figures():
    for run in figures.RUNS:
        assert figures.figures_of(run.name)
    assert {figure.run for figure in figures.FIGURES} == {run.name for run in figures.RUNS}


def test_a_page_keeps_what_is_around_the_table(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{results.BEGIN}\nold\n{results.END}\nafter\n")
    results.write_into(page, "new")
    results.write_into(page, "newer")
    assert page.read_text() == f"before\n{results.BEGIN}\n\nnewer\n\n{results.END}\nafter\n"
