"""Two reports side by side."""

from __future__ import annotations

import pytest

from celery_fair.bench.comparing import FORMAT, NotAReport, Row, checked, rows


def report(p50=1.0, at_least=(), used=2.0, utilisation=0.5):
    waits = {"p50": p50, "p95": p50, "p99": p50, "max": p50, "at_least": list(at_least)}
    return {
        "format": FORMAT,
        "kinds": {kind: {"wait_seconds": waits} for kind in ("interactive", "batch")},
        "slots_in_use": {"interactive": used, "batch": used},
        "utilisation": utilisation,
        "batch_part": 0.5,
        "tasks_a_second": 3.0,
    }


def test_each_figure_has_before_and_after_and_what_became_of_it():
    found = {row.name: row for row in rows(report(p50=2.0), report(p50=0.5))}
    wait = found["interactive wait p50"]
    assert (wait.before, wait.after, wait.ratio) == (2.0, 0.5, 0.25)
    assert found["batch's part"].ratio == 1.0


def test_a_bound_is_known_as_one():
    (row, *_) = rows(report(at_least=["p50"]), report())
    assert row.at_least == (True, False)


@pytest.mark.parametrize(("before", "after"), [(None, 1.0), (0.0, 1.0), (1.0, None)])
def test_what_is_not_known_has_no_ratio(before, after):
    assert Row("x", "number", before, after).ratio is None


@pytest.mark.parametrize("said", [[], {}, {"format": 0}, {"format": FORMAT}, "text", None])
def test_what_is_no_report_is_refused_with_what_was_expected(said):
    with pytest.raises(NotAReport, match="expected a"):
        checked(said)


def test_a_report_is_one():
    assert checked(report()) == report()
