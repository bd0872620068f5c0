"""Replays again and again: only while a worker observes, and never twice at once."""

from __future__ import annotations

import threading

import pytest

from celery_fair.observe.counterfactual import Counterfactual, KindReplay
from celery_fair.observe.replaying import EVERY_SECONDS, Replaying

FOUND = Counterfactual(
    of={
        "interactive": KindReplay(
            99, {"p50": 1.0, "p95": 41.0}, {"p50": 1.0, "p95": 40.0}, {"p50": 0.0, "p95": 1.9}, 0.02
        ),
        "batch": KindReplay(9, {"p50": 1.0, "p95": 50.0}, {"p50": 1.0, "p95": 5.0}, error=0.9),
    }
)


@pytest.fixture
def asked():
    """What was asked, and what came of it."""
    return []


@pytest.fixture
def replaying(asked):
    return Replaying(lambda: asked.append("asked") or FOUND)


def look(replaying, now, modes=("observe",)):
    replaying.look(modes, now)
    if replaying._thread is not None:
        replaying._thread.join()


def test_what_there_is_of_each_kind_is_told(replaying):
    look(replaying, 1.0)
    assert replaying.figures == {
        "interactive": {"measured": 41.0, "would_be": 1.9, "error": 0.02},
        "batch": {"measured": 50.0, "error": 0.9},
    }


def test_it_asks_each_five_minutes_and_no_more_often(replaying, asked):
    for now in (1.0, 2.0, EVERY_SECONDS):
        look(replaying, now)
    assert asked == ["asked"]
    look(replaying, 1.0 + EVERY_SECONDS)
    assert asked == ["asked"] * 2


def test_one_that_takes_longer_is_the_only_one():
    begun, may_end = [], threading.Event()
    replaying = Replaying(lambda: begun.append("begun") or (may_end.wait(30) and FOUND))
    for now in (1.0, 1.0 + EVERY_SECONDS, 1.0 + 2 * EVERY_SECONDS):
        replaying.look(("observe",), now)
    may_end.set()
    replaying._thread.join()
    assert begun == ["begun"]


def test_where_all_enforce_nobody_is_asked_and_old_figures_go(replaying, asked):
    look(replaying, 1.0)
    look(replaying, 1000.0, modes=("enforce",))
    assert asked == ["asked"]
    assert replaying.found is None
    assert replaying.figures == {}


def test_a_broker_that_is_away_costs_the_figures_and_nothing_else(asked, caplog):
    def replay():
        if asked:
            raise ConnectionError("gone")
        asked.append("asked")
        return FOUND

    replaying = Replaying(replay)
    look(replaying, 1.0)
    assert replaying.found is FOUND
    look(replaying, 1000.0)
    assert replaying.found is None
    assert "no replay of what the workers have run: gone" in caplog.text
