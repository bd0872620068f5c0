"""What Flower's page is told of a replay, and when one is made."""

from __future__ import annotations

import json

import pytest

from celery_fair.integrations.flower import replays as module
from celery_fair.integrations.flower.replays import Replays
from celery_fair.observe.counterfactual import Counterfactual, KindReplay
from tests.flower.facts import facts

FOUND = Counterfactual(
    seconds=78.0,
    until=1000.0,
    workers=1,
    slots=8,
    tasks=655,
    left_out=("shards",),
    of={
        "interactive": KindReplay(
            600, {"p95": 3.8}, {"p95": 3.9}, {"p95": 0.08}, 0.03, later_mean=-1.0, later_last=-2.0
        ),
        "batch": KindReplay(55, {"p95": 50.0}, {"p95": 5.0}, error=0.9, why="90 % off"),
    },
)


@pytest.fixture
def asked(monkeypatch):
    """The workers that a replay was made of, and the ones that tell nothing."""
    asked = []

    def replay(reports, silent, ask):
        asked.append((set(reports), set(silent)))
        return FOUND

    monkeypatch.setattr(module, "replay", replay)
    return asked


def looked(replays, reports, without=(), now=1.0):
    """What the page is told once the thread that a first look starts has ended."""
    replays.picture(None, reports, without, now)
    if replays._replaying._thread is not None:
        replays._replaying._thread.join()
    return replays.picture(None, reports, without, now)


def test_what_it_has_come_to_is_told_by_kind(asked):
    told = looked(Replays(), {"w1": {**facts(), "mode": "observe"}})
    assert told == {
        "why": None,
        "seconds": 78.0,
        "until": 1000.0,
        "tasks": 655,
        "slots": 8,
        "left_out": ["shards"],
        "kinds": [
            [
                "interactive",
                {
                    "tasks": 600, "measured": 3.8, "replayed": 3.9, "would_be": 0.08,
                    "error": 0.03, "later_last": -2.0, "why": None,
                },
            ],
            [
                "batch",
                {
                    "tasks": 55, "measured": 50.0, "replayed": 5.0, "would_be": None,
                    "error": 0.9, "later_last": None, "why": "90 % off",
                },
            ],
        ],
    }  # fmt: skip
    assert asked == [({"w1"}, set())]
    json.dumps(told, allow_nan=False)


def test_where_nobody_observes_nothing_is_asked(asked):
    assert looked(Replays(), {"w1": facts()}) is None
    assert asked == []


def test_workers_without_celery_fair_are_told_of_as_nobody_knows_what_they_ran(asked):
    looked(Replays(), {"w1": {**facts(), "mode": "observe"}}, ["plain"])
    assert asked == [({"w1"}, {"plain"})]


def test_facts_that_are_none_are_left_out(asked):
    assert looked(Replays(), {"odd": {}, "w1": {**facts(), "mode": "observe"}}) is not None
    assert asked == [({"w1"}, set())]


def test_a_broker_that_is_away_costs_the_replay_and_nothing_else(monkeypatch, caplog):
    def replay(reports, silent, ask):
        raise ConnectionError("gone")

    monkeypatch.setattr(module, "replay", replay)
    assert looked(Replays(), {"w1": {**facts(), "mode": "observe"}}) is None
    assert "gone" in caplog.text
