"""`fair bench` as a program: what it refuses, what it writes, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.bench.comparing import FORMAT
from celery_fair.cli import fair

URL = "redis://:secret@127.0.0.1:1/0"
REPORTED = {
    "format": FORMAT,
    "source": "probes",
    "seconds": 30.0,
    "workers": {"with_celery_fair": ["w1@host"], "plain": ["old@host"]},
    "gone": [],
    "slots": 8,
    "slots_in_use": {"interactive": 1.0, "batch": 2.0},
    "utilisation": 0.375,
    "batch_part": 0.667,
    "sampled": 30,
    "tasks_a_second": 12.34,
    "ended": "complete",
    "kinds": {
        kind: {
            "queue": queue, "sent": 30, "ran": 29, "refused": 0,
            "wait_seconds": {
                "count": 30, "p50": 0.004, "p95": 0.04, "p99": 2.0, "max": 2.0,
                "at_least": ["p99", "max"],
            },
        }
        for kind, queue in (("interactive", "celery"), ("batch", "bulk"))
    },
}  # fmt: skip


@pytest.fixture
def invoke(make_app):
    def invoke(*arguments):
        context = CLIContext(app=make_app(URL), no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["bench", *arguments], obj=context)

    return invoke


@pytest.fixture
def measured(monkeypatch):
    """``measured(ended="…")``: what the run has found, without one."""

    def measured(**changes):
        report = json.loads(json.dumps({**REPORTED, **changes}))
        command = sys.modules["celery_fair.cli.bench"]  # `celery_fair.cli.bench` is the command
        monkeypatch.setattr(command, "_probe", lambda *_: report)
        return report

    return measured


# What it refuses


@pytest.mark.parametrize(
    "arguments",
    [
        ("--flood", "100"),
        ("--flood", "100", "--test-broker", "127.0.0"),
        ("--flood", "100", "--test-broker", "redis"),
        ("--rate", "6"),
        ("--rate", "5", "--run-seconds", "1"),
        ("--run-seconds", "60"),
    ],
)
def test_a_broker_is_not_loaded_unless_it_is_named_as_a_test_one(invoke, arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "say so with --test-broker 127.0.0.1" in result.stderr
    assert "secret" not in result.output


@pytest.mark.parametrize("short", [("--seconds=0.9",), ("--rate=0.01",)])
def test_a_run_without_a_probe_is_refused(invoke, short):
    result = invoke(*short)
    assert result.exit_code == 2
    assert "is less than one probe" in result.stderr


@pytest.mark.parametrize("queue", ["bulk", "batch=", "=bulk", "urgent=bulk"])
def test_a_queue_of_no_kind_is_refused(invoke, queue):
    result = invoke("--queue", queue)
    assert result.exit_code == 2
    assert f"expected interactive=QUEUE or batch=QUEUE, got '{queue}'" in result.stderr


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 99}'])
def test_a_file_that_is_no_report_is_refused_before_anything_is_sent(invoke, tmp_path, text):
    path = tmp_path / "before.json"
    path.write_text(text, encoding="utf-8")
    result = invoke("--compare", str(path))
    assert result.exit_code == 2
    assert "before.json can't be compared with" in result.stderr
    assert "Traceback" not in result.output


def test_a_place_that_is_none_is_refused_before_anything_is_sent(invoke, tmp_path):
    result = invoke("--save", str(tmp_path / "reports" / "before.json"))
    assert result.exit_code == 2
    assert "make it first" in result.stderr


# What it writes


def test_the_table_has_waits_by_kind_and_the_use_of_slots(invoke, measured):
    measured()
    result = invoke()
    assert result.exit_code == 0, (result.output, result.exception)
    assert "1 worker with celery-fair and 1 worker of plain Celery, 8 slots" in result.stdout
    assert "≥ 2.0 s" in result.stdout
    assert "slots in use 38 %" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_narrow_terminal_gets_what_it_has_room_for(invoke, measured, monkeypatch):
    monkeypatch.setenv("COLUMNS", "46")
    measured()
    said = invoke().stdout
    assert max(map(len, said.splitlines())) <= 46
    assert "interactive    30   29      4 ms  40 ms" in said


def test_json_is_the_report(invoke, measured):
    report = measured()
    assert json.loads(invoke("--json").stdout) == report


def test_what_was_saved_can_be_compared_with(invoke, measured, tmp_path):
    path = str(tmp_path / "before.json")
    measured(tasks_a_second=10.0)
    assert invoke("--save", path).exit_code == 0
    measured(tasks_a_second=20.0)
    assert "tasks a second" in invoke("--compare", path).stdout
    both = json.loads(invoke("--compare", path, "--json").stdout)
    assert both["ratios"]["tasks a second"] == 2.0
    assert both["before"]["tasks_a_second"] == 10.0


def test_what_cant_be_saved_is_shown_all_the_same(invoke, measured, monkeypatch, tmp_path):
    def refused(*_, **__):
        raise PermissionError("not here")

    measured()
    monkeypatch.setattr(Path, "write_text", refused)
    result = invoke("--save", str(tmp_path / "before.json"))
    assert result.exit_code == 74, (result.output, result.exception)
    assert "The report can't be saved" in result.stderr
    assert "slots in use 38 %" in result.stdout


# How it ends


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        ("interrupted", 130, "Interrupted: this is what there was"),
        ("broker lost", 69, "The broker was lost, or refuses: this is what there was"),
    ],
)
def test_what_ends_it_early_is_told_after_what_was_measured(invoke, measured, ended, code, said):
    measured(ended=ended)
    result = invoke()
    assert result.exit_code == code
    assert said in result.stdout
    assert "wait p50" in result.stdout


def test_a_kind_of_which_no_probe_ran_is_an_exit_code_and_a_hint(invoke, measured):
    kinds = json.loads(json.dumps(REPORTED["kinds"]))
    kinds["batch"]["ran"] = 0
    measured(kinds=kinds)
    result = invoke()
    assert result.exit_code == 1
    assert "None of the batch probes ran in time: does a worker consume bulk" in " ".join(
        result.stdout.split()
    )


def test_a_worker_that_is_gone_is_named(invoke, measured):
    measured(gone=["w2@host"])
    assert "w2@host answered before and no more after" in invoke().stdout
