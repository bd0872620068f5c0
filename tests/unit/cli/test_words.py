"""Figures as a person reads them."""

from __future__ import annotations

import pytest

from celery_fair.cli import words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (-0.001, "0 ms"),
        (0.0042, "4 ms"),
        (0.9994, "999 ms"),
        (1.0, "1.0 s"),
        (12.34, "12 s"),
        (99.9, "100 s"),
        (150.0, "2.5 min"),
        (5940.0, "99 min"),
        (7200.0, "2.0 h"),
        (200_000.0, "2.3 d"),
    ],
)
def test_a_duration_has_the_unit_that_fits(seconds, said):
    assert words.duration(seconds) == said


def test_a_number_that_is_not_known_is_called_so():
    assert words.count(None) == "unknown"
    assert words.count(12345) == "12\N{NO-BREAK SPACE}345"


def test_never_is_a_time_too():
    assert words.ago(None, 100.0) == "never"
    assert words.ago(96.0, 100.0) == "4.0 s ago"


def test_a_share_is_shown_in_percent():
    assert (words.percent(0.2), words.percent(None)) == ("20 %", "–")


def test_one_is_not_plural():
    assert (words.plural(1, "slot"), words.plural(2, "slot")) == ("1 slot", "2 slots")
