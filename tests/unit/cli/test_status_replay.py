"""What ``fair status`` says of a replay."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from importlib import import_module

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner
from rich.console import Console

from celery_fair.cli import fair, status_replay
from celery_fair.cli.status_text import show_replay
from celery_fair.observe.counterfactual import Counterfactual, KindReplay
from celery_fair.observe.finished import Finished, packed
from celery_fair.policy import PolicySettings
from tests.unit.cli.replies import report

GIVEN = {
    "interactive": KindReplay(
        900, {"p50": 20.0, "p95": 41.0}, {"p50": 19.0, "p95": 43.0}, {"p50": 0.1, "p95": 1.9}, 0.05
    ),
    "batch": KindReplay(
        400, {"p50": 20.0, "p95": 60.0}, {"p50": 20.0, "p95": 61.0}, {"p50": 90.0, "p95": 130.0},
        0.02, 71.0, 360.0,
    ),
}  # fmt: skip


def shown(of=None, **given) -> str:
    out = io.StringIO()
    found = Counterfactual(86_400.0, 1.8e9, 2, 16, 1300, of or GIVEN, **given)
    show_replay(Console(file=out, width=200), found)
    return out.getvalue()


def test_it_answers_what_celery_fair_would_have_made_of_it():
    text = shown()
    assert "the last 24 h, 1\N{NO-BREAK SPACE}300 tasks on 16 slots" in text
    assert "interactive p95 wait was 41 s and would have been 1.9 s" in text
    assert "(plain Celery replayed: off by 5 %)" in text
    assert "the last would have ended 6.0 min later, on average 71 s later" in text


def test_where_the_replay_is_off_it_says_so_and_gives_no_figure():
    off = KindReplay(900, {"p50": 1.0, "p95": 41.0}, {"p50": 1.0, "p95": 9.0}, None, 0.78, why="W")
    text = shown({**GIVEN, "interactive": off})
    assert "interactive p95 wait was 41 s; no figure: W" in text
    assert "1.9 s" not in text


def test_where_too_little_was_seen_it_says_so():
    few = KindReplay(3, why="too few tasks")
    assert "batch: no figure: too few tasks" in shown({**GIVEN, "batch": few})


def test_why_there_is_no_replay_at_all_and_what_it_leaves_out():
    assert "no replay: w2 enforces" in shown(why="w2 enforces")
    assert "not replayed: resources" in shown(left_out=("resources",))


def test_short_waits_are_off_by_milliseconds_not_percents():
    short = KindReplay(900, {"p50": 0.0, "p95": 0.004}, {"p50": 0.0, "p95": 0.006},
                       {"p50": 0.0, "p95": 0.003}, 0.5)  # fmt: skip
    assert "off by 2 ms" in shown({**GIVEN, "interactive": short})


@pytest.fixture
def workers(monkeypatch):
    """One worker that observes; what was asked is returned."""
    asked = []
    tasks = [Finished(1.8e9 + n, 0.5, 0.5, ("interactive", "batch")[n % 2]) for n in range(200)]
    page = {
        "since": 1.8e9 - 1, "oldest": 0, "first": 0, "tasks": packed(tasks), "slots": 2,
        "prefetch": 4, "policy": asdict(PolicySettings()), "pushes": False, "in_turn": True,
        "kinds": ["interactive", "batch"], "sensor_seconds": 0.25, "hold_max_seconds": 30.0,
        "left_out": [],
    }  # fmt: skip
    replies = {"fair_status": {"w1": report(mode="observe")}, "fair_observed": {"w1": page}}

    def ask(app, command, **options):
        asked.append(command)
        return replies[command]

    monkeypatch.setattr(import_module("celery_fair.cli.status"), "ask", ask)
    monkeypatch.setattr(status_replay, "ask", ask)
    return asked


def invoke(make_app, *arguments):
    return CliRunner().invoke(fair, arguments, obj=CLIContext(make_app(), True, None))


def test_the_command_asks_those_who_observe_and_replays(make_app, workers):
    result = invoke(make_app, "status")
    assert result.exit_code == 0, result.output
    assert "With celery-fair" in result.stdout
    assert workers == ["fair_status", "fair_observed"]


def test_json_has_it_under_replay(make_app, workers):
    found = json.loads(invoke(make_app, "status", "--json").stdout)["replay"]
    assert found["tasks"] == 200
    assert found["of"]["interactive"]["measured"]["p95"] == pytest.approx(0.5)


@pytest.mark.parametrize("given", [["--replay", "0"], ["-d", "w1"]])
def test_without_a_replay_or_for_some_workers_alone_nobody_is_asked(make_app, workers, given):
    """Some of a fleet don't tell what the others have run."""
    assert invoke(make_app, "status", *given).exit_code == 0
    assert workers == ["fair_status"]
