"""What the bench sends, and when."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from celery_fair.bench.probing import Plan
from celery_fair.bench.replies import _run_seconds
from celery_fair.probe import LONGEST_SECONDS, NAME, probe


@pytest.fixture(autouse=True)
def _same_lots():
    random.seed(7)


def test_a_plan_sends_as_many_of_each_kind_as_its_rate_and_its_time_allow():
    moments = list(Plan(seconds=10, rate=2).moments())
    assert len(moments) == 40
    assert [kind for _, kind in moments].count("batch") == 20
    assert all(0 <= at < 10 for at, _ in moments)


def test_it_sends_no_more_than_it_is_allowed_in_all():
    assert len(list(Plan(seconds=1000, rate=5, most=7).moments())) == 14


def test_moments_are_in_order_and_not_regular():
    times = [at for at, _ in Plan(seconds=10, rate=1).moments()]
    assert times == sorted(times)
    assert len({round(b - a, 3) for a, b in pairwise(times)}) > 10


def test_either_kind_may_be_first():
    kinds = [kind for _, kind in Plan(seconds=50, rate=1).moments()][::2]
    assert set(kinds) == {"interactive", "batch"}


@pytest.mark.parametrize(
    ("plan", "needs"), [(Plan(), False), (Plan(run_seconds=0.1), True), (Plan(flood=1), True)]
)
def test_only_what_holds_a_slot_needs_the_packages_own_task(plan, needs):
    assert plan.needs_probe_task is needs


def test_the_packages_own_task_tells_how_long_it_ran():
    assert 0.01 <= probe(0.01) < 5
    assert probe.name == NAME
    assert probe.ignore_result


def test_no_message_makes_it_run_for_ever(monkeypatch):
    slept = []
    monkeypatch.setattr("celery_fair.probe.time.sleep", slept.append)
    probe(1e9)
    probe(-1)
    assert slept == [LONGEST_SECONDS, 0.0]


class Message:
    content_type = "application/json"

    def __init__(self, payload):
        self.payload = payload


@pytest.mark.parametrize(
    ("payload", "seconds"),
    [
        ([[0.5], {}, {}], 0.5),
        ([[[]], {}, {}], 0.0),  # Celery's own task returns its arguments
        ([[-1], {}, {}], 0.0),
        ([["x"], {}, {}], 0.0),
        (None, 0.0),
        ({}, 0.0),
    ],
)
def test_the_word_of_a_probe_is_read_with_care(payload, seconds):
    assert _run_seconds(Message(payload)) == seconds
