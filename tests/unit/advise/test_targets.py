"""What can be asked for, and how what can't is refused."""

from __future__ import annotations

import contextlib
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.advise.targets import (
    Done,
    Rate,
    TargetError,
    Wait,
    next_time,
    parse_batch,
    parse_slo,
    spelled,
)


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("interactive p95 < 2s", [Wait("interactive", 0.95, 2.0)]),
        ("p99<500ms", [Wait("interactive", 0.99, 0.5)]),
        ("p99.9 <= 1min 30s", [Wait("interactive", 0.999, 90.0)]),
        ("Interactive P50 < 0.1 s, batch p95 < 10min",
         [Wait("interactive", 0.5, 0.1), Wait("batch", 0.95, 600.0)]),
    ],
)  # fmt: skip
def test_waits_are_said_in_sentences(text, waits):
    assert parse_slo(text) == [
        Wait(one.kind, pytest.approx(one.quantile), one.seconds) for one in waits
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast", "expected sentences like 'interactive p95 < 2s'"),
        ("", "expected sentences"),
        ("p95 > 2s", "expected sentences"),
        ("p95 < 2", "expected a time like 2s or 500ms (ms, s, min, h, d), got '2'"),
        ("p95 < 2 parsecs", "got '2 parsecs'"),
        ("p95 < 0s", "above 0"),
        ("p95 < 8d", "at most 7d"),
        ("p95 < 2s extra", "got '2s extra'"),
        ("p30 < 2s", "expected a percentile from p50 to p99.9, got p30"),
        ("p99.99 < 2s", "from p50 to p99.9"),
        ("cron p95 < 2s", "expected interactive or batch before p95, got 'cron'"),
        ("p95 < 2s, p95 < 3s", "each percentile of a kind once"),
        ("p95 < 2s,", "expected sentences"),
    ],
)
def test_a_sentence_that_is_not_understood_whole_is_refused(text, said):
    with pytest.raises(TargetError) as caught:
        parse_slo(text)
    assert said in str(caught.value)


EVENING = datetime(2026, 11, 30, 22, 0)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("300/h", Rate(300 / 3600, "300/h")),
        ("batch 2.5 / s", Rate(2.5, "2.5 / s")),
        ("batch done in 6h", Done(21_600.0, "done in 6h")),
        ("done in 1h 30min", Done(5400.0, "done in 1h 30min")),
    ],
)
def test_batch_is_asked_for_a_rate_or_an_end(text, target):
    assert parse_batch(text, EVENING) == target


def test_a_time_of_day_is_the_next_such_on_the_clock_of_this_machine():
    assert parse_batch("batch done by 07:00", EVENING).seconds in (
        9 * 3600, 8 * 3600, 10 * 3600,  # the latter where clocks are changed in this night
    )  # fmt: skip
    assert parse_batch("done by 07:00", EVENING).said.startswith("done by 07:00 ")
    assert next_time("7:00", datetime(2026, 11, 30, 7, 0)) == datetime(2026, 12, 1, 7, 0)
    assert next_time("23:59", EVENING) == datetime(2026, 11, 30, 23, 59)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("done by 25:00", "expected a time of day like 07:00, got '25:00'"),
        ("done by seven", "got 'seven'"),
        ("done in a while", "expected a time like 6h or 1h 30min"),
        ("0/h", "expected a rate above 0"),
        ("300", "expected 'done by 07:00', 'done in 6h' or a rate like '300/h', got '300'"),
        ("300/week", "got '300/week'"),
    ],
)
def test_what_can_not_be_asked_of_batch_is_refused(text, said):
    with pytest.raises(TargetError) as caught:
        parse_batch(text, EVENING)
    assert said in str(caught.value)


def test_a_time_of_day_needs_a_start_that_has_one():
    with pytest.raises(TargetError, match="say 'done in 6h' instead"):
        parse_batch("done by 07:00", None)


@given(st.integers(1, 86_400_000))
def test_what_is_spelled_can_be_asked_for(milliseconds):
    seconds = milliseconds / 1000
    (wait,) = parse_slo(f"p95 < {spelled(seconds)}")
    assert wait.seconds == pytest.approx(seconds, rel=1e-4)


@given(st.text())
@pytest.mark.parametrize("parse", [parse_slo, lambda text: parse_batch(text, EVENING)])
def test_whatever_is_said_it_is_understood_or_refused(parse, text):
    with contextlib.suppress(TargetError):
        assert parse(text)
