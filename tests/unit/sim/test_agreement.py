"""When a simulated figure counts as near enough to a measured one."""

from __future__ import annotations

import math

import pytest

from tests.benchmarks.agreement import BEGIN, END, Row, table, write_into


def row(measured, simulated):
    real = {"p50": measured, "p95": 1.0, "batch": 3.0}
    return Row("steady", "redis", 5, "fair", real, {**real, "p50": simulated}, 0.1)


@pytest.mark.parametrize(
    ("measured", "simulated", "agrees"),
    [
        (1.0, 1.149, True),
        (1.0, 0.84, False),
        (0.04, 0.049, True),
        (0.04, 0.051, False),
        (None, math.nan, True),
        (None, 1.0, False),
        (1.0, math.nan, False),
    ],
)
def test_the_bound_is_a_part_and_of_small_waits_a_number_of_milliseconds(
    measured, simulated, agrees
):
    assert row(measured, simulated).agrees("p50") is agrees
    assert row(measured, simulated).holds is agrees


def test_what_is_off_is_marked_and_counted():
    text = table([row(1.0, 1.0), row(1.0, 2.0)])
    assert text.startswith("5 of 6 figures are within the bound.")
    assert text.count("**off**") == 1


def test_the_page_keeps_all_but_the_table(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nafter\n")
    for text in ("first", "second"):
        write_into(page, text)
        said = page.read_text()
        assert said.startswith("before\n")
        assert said.endswith("after\n")
        assert said.count(END) == 1
    assert "second" in said
    assert "first" not in said
