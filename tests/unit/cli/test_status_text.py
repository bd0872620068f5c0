"""``fair status`` as text."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from celery_fair.cli.overview import Answers
from celery_fair.cli.status_text import show
from tests.unit.cli.replies import NOW, kind, report, wait
from tests.unit.observe.workers import resource

CONFIGURED = {"interactive": ("celery",), "batch": ("celery.batch",)}


def shown(replies, configured=CONFIGURED, width=80) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width), Answers.of(replies), configured, NOW)
    return out.getvalue()


def line_with(word, text) -> list[str]:
    return next(line for line in text.splitlines() if word in line).split()


def test_a_worker_has_its_gate_with_the_reason_slots_and_share():
    text = shown({"w1@host": report()})
    assert "w1@host   gate open for 60 s (nothing interactive waits)" in text
    assert "8 slots, 2 in reserve" in text
    assert "batch: guaranteed 20 %, actual 50 %; last start 3.0 s ago" in text


def test_the_figures_of_a_shut_gate_are_said_to_be_of_when_it_closed():
    gate = {**report()["gate"], "mode": "protected", "reason": "interactive backlog 22 > 10"}
    text = shown({"w1@host": report(gate=gate)})
    assert "gate protected for 60 s (when it closed: interactive backlog 22 > 10)" in text


def test_each_kind_has_what_runs_what_waits_and_how_long():
    busy = kind(
        "celery.batch",
        running=5,
        held=2,
        ready={"celery.batch": 1232},
        wait_seconds=wait(0.004, 1.25, 75.0, count=9),
    )
    # A number's no-break space splits like any other.
    expected = ["batch", "5", "2", "1", "234", "4", "ms", "1.2", "s", "75", "s"]
    assert line_with("batch", shown({"w1": report(batch=busy)})) == expected


def engine(**changes):
    return {
        "probed": True, "pressure": 0.5, "detail": "waiting requests: 4", "queueing": False,
        "unknown": False, "age_seconds": 0.4, "failing": "", "failures": 0, **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (engine(), "engine at 0.5 of what is fine (waiting requests: 4)\n"),
        (
            engine(pressure=1.5, queueing=True),
            "engine at 1.5 of what is fine (waiting requests: 4): batch gives way",
        ),
        (
            engine(unknown=True, pressure=None, failing="OSError: x", age_seconds=61),
            "the load probe gives no answer (OSError: x); its last one: 61 s ago",
        ),
        (engine(unknown=True, pressure=None, age_seconds=None), "no answer; its last one: never"),
    ],
)
def test_an_engine_that_is_probed_has_its_line(said, line):
    assert line in shown({"w1": report(engine=said)}, width=200)
    assert "engine" not in shown({"w1": report()})


def resources(*of, **changes):
    return {"set": True, "unknown": False, "age_seconds": 1.0, "of": of, "left_out": 0, **changes}


def test_resources_are_shown_once_from_the_youngest_look():
    busy = resource(waiting={"interactive": 2, "batch": 1200}, slowed_seconds=0.0, rate=1.0)
    old = resources(resource(max_running=99), age_seconds=9.0)
    text = shown({"w1": report(resources=old), "w2": report(resources=resources(busy))}, width=200)
    assert text.count("Resources of all workers") == 1
    said = "1 202 wait (2 interactive, 1 200 batch); -12 tokens left now\n"
    assert f"openai: 3 of 8 running (3 batch), {said}" in text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_resource_that_refused_is_said_to_be_slowed():
    text = shown({"w1": report(resources=resources(resource(tokens_left=None)))}, width=200)
    assert "openai: 3 of 8 running (3 batch); slowed to 50 %; none for batch for 4.0 s" in text


def test_a_store_that_can_not_be_asked_is_said_and_nothing_set_says_nothing():
    away = resources(unknown=True, age_seconds=60.0)
    assert "resources can't be asked; last answer 60 s ago" in shown({"w1": report(resources=away)})
    assert "esources" not in shown({"w1": report()})


def test_what_waits_for_more_than_a_slot_is_said_beside_the_backlog():
    hook = {"set": True, "answers": {}, "stuck": 2, "delayed": 0}
    waiting = {"interactive": 0, "batch": 64}
    clearing = {"set": True, "away": False, "away_seconds": None, "waiting": waiting, "hook": hook}
    text = shown({"w1": report(clearing=clearing)}, width=200)
    assert "of the backlog, held for a place, a budget or the hook: 64 batch\n" in text
    assert "the hook has not answered for 2 tasks" in text
    away = {**clearing, "away": True, "away_seconds": 12.0}
    said = "what workers share can't be asked for 12 s: interactive tasks go on, batch at its share"
    assert said in shown({"w1": report(clearing=away)}, width=200)
    assert "can't be asked" not in text
    assert "beside" not in shown({"w1": report()})


def test_where_a_worker_records_is_said_and_what_it_has_lost():
    found = {"where": "redis", "sample": 0.1, "written": 9, "lost": 0, "failures": 0}
    assert "  records 10 % of its tasks into redis\n" in shown({"w1": report(recording=found)})
    lost = {**found, "sample": 1.0, "where": "/var/\x1b[1m", "lost": 3}
    text = shown({"w1": report(recording=lost)}, width=200)
    assert "its tasks into /var/" in text
    assert "\x1b" not in text
    assert "3 could not be written, and are lost" in text
    assert "records" not in shown({"w1": report()})


def test_a_backlog_that_could_not_be_read_is_unknown():
    assert "unknown" in line_with("batch", shown({"w1": report(batch=kind("b", ready=None))}))


def test_a_kind_that_a_worker_does_not_serve_is_in_brackets():
    assert "(batch)" in shown({"w1": report(batch=kind())})


def test_a_share_that_was_not_measured_says_so():
    share = {"guaranteed": 0.2, "received": None}
    assert "actual not measured yet" in shown({"w1": report(share=share)})


def test_one_worker_needs_no_total_and_two_do():
    assert "Total" not in shown({"w1": report()})
    two = shown(
        {"w1": report(), "w2": report(interactive=kind("celery", wait_seconds=wait(1, 1, 1)))}
    )
    assert "Total of 2 workers   gates: 2 open" in two
    assert "16 slots, 4 in reserve" in two
    assert "≤ 1.0 s" in two


def test_observing_blindness_and_a_fleet_are_mentioned():
    blind = {**report()["gate"], "blind": True}
    text = shown(
        {"w1": report(mode="observe", gate=blind, fleet={"workers": 20, "slots": 20})}, width=200
    )
    assert "in a fleet of 20 workers with 20 slots" in text
    assert "only observing" in text
    assert "the queues can't be read" in text


def test_a_worker_without_the_plugin_is_named():
    text = shown({"w1": report(), "old": {"error": "KeyError('fair_status')"}})
    assert "! old works without celery-fair: celery-fair is not installed there." in text


def test_a_queue_that_nobody_serves_is_named():
    lonely = {"w1": report(batch=kind())}
    assert "No worker with celery-fair serves celery.batch (batch)" in shown(lonely)
    assert "No worker" not in shown({"w1": report()})


def test_no_name_that_came_over_the_broker_steers_the_terminal():
    by = "\x1b[2Jann\r"
    paused = [{"kind": "batch", "queue": None, "by": by, "at": NOW}]
    text = shown({"w1\x1b[0m": report(steering={"paused": paused, "draining": None})})
    assert "\x1b" not in text
    assert "paused by \N{REPLACEMENT CHARACTER}[2Jann" in text


def test_a_queue_that_is_paused_is_not_said_to_have_nobody():
    paused = [{"kind": "batch", "queue": "celery.batch", "by": "ann@ops", "at": NOW}]
    steering = {"paused": paused, "draining": None}
    text = shown({"w1@host": report(kind("celery"), kind(), steering=steering)})
    assert "batch from celery.batch paused by ann@ops" in text
    assert "No worker" not in text


def test_a_task_that_ends_its_child_again_and_again_is_named():
    once, often = ({"id": id, "task": "shop.pdf", "times": n} for id, n in (("x", 1), ("y", 7)))
    said = shown({"w1": report(ended_by_pool=[often, once])})
    assert "! shop.pdf[y] has lost its child, or overrun its time limit, 7 times." in said
    assert "shop.pdf[x]" not in said


def test_different_versions_are_named():
    text = shown({"w1": report(), "w2": report(version="0.0.9")}, width=200)
    assert "w2 0.0.9" in text
    assert "Versions" not in shown({"w1": report()})


@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_wider_than_80_columns(workers):
    long = kind(
        "celery.batch",
        running=1000,
        held=100_000,
        ready={"celery.batch": 10_000_000},
        wait_seconds=wait(0.999, 5940, 170_000, count=9),
    )
    gate = {
        **report()["gate"],
        "reason": "interactive backlog and wait are under half of their thresholds",
    }
    replies = {
        f"celery-worker-{number}@some.long.host.name": report(
            interactive=long, batch=long, gate=gate
        )
        for number in range(workers)
    }
    text = shown(replies)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "10\N{NO-BREAK SPACE}100\N{NO-BREAK SPACE}000" in text
