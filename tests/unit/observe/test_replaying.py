"""The exporter's replay: only while a worker observes, and never twice at once."""

from __future__ import annotations

import pytest

from celery_fair.cli import exporter_replay
from celery_fair.cli.exporter_replay import EVERY_SECONDS, Replaying
from celery_fair.observe.counterfactual import Counterfactual, KindReplay

FOUND = Counterfactual(
    of={
        "interactive": KindReplay(
            99, {"p50": 1.0, "p95": 41.0}, {"p50": 1.0, "p95": 40.0}, {"p50": 0.0, "p95": 1.9}, 0.02
        ),
        "batch": KindReplay(9, {"p50": 1.0, "p95": 50.0}, {"p50": 1.0, "p95": 5.0}, error=0.9),
    }
)


@pytest.fixture
def modes():
    return {"observe"}


@pytest.fixture
def replaying(monkeypatch, modes):
    asked = []
    monkeypatch.setattr(exporter_replay, "ask", lambda *_, **__: asked.append("asked") or {})
    monkeypatch.setattr(exporter_replay, "replayed", lambda *_: FOUND)
    found = Replaying(None, lambda: modes)
    found.asked = asked
    return found


def look(replaying, now):
    replaying.look(now)
    if replaying._thread is not None:
        replaying._thread.join()


def test_what_there_is_of_each_kind_is_told(replaying):
    look(replaying, 1.0)
    assert replaying.figures == {
        "interactive": {"measured": 41.0, "would_be": 1.9, "error": 0.02},
        "batch": {"measured": 50.0, "error": 0.9},
    }


def test_it_asks_each_five_minutes_and_no_more_often(replaying):
    for now in (1.0, 2.0, EVERY_SECONDS):
        look(replaying, now)
    assert replaying.asked == ["asked"]
    look(replaying, 1.0 + EVERY_SECONDS)
    assert replaying.asked == ["asked"] * 2


def test_where_all_enforce_nobody_is_asked_and_old_figures_go(replaying, modes):
    look(replaying, 1.0)
    modes.clear()
    modes.add("enforce")
    look(replaying, 1000.0)
    assert replaying.asked == ["asked"]
    assert replaying.figures == {}


def test_a_broker_that_is_away_costs_the_figures_and_nothing_else(replaying, monkeypatch):
    look(replaying, 1.0)

    def lost(*_, **__):
        raise ConnectionError("gone")

    monkeypatch.setattr(exporter_replay, "ask", lost)
    look(replaying, 1000.0)
    assert replaying.figures == {}
