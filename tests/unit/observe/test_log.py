"""Lines of JSON: one a finished task, one a change of the gate."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.observe.log import GATE, LONGEST_ID, TASKS, TaskLog, task_fields
from celery_fair.observer import HOOKS, GateChange, TaskInfo

TASK = TaskInfo(
    "batch", "shop.report", "id-1", "celery.batch", 100.0, 101.0, 102.5, 103.0, "open", "succeeded"
)


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO)

    def read(logger):
        return [json.loads(r.getMessage()) for r in caplog.records if r.name == logger]

    return read


def test_a_finished_task_is_a_line_of_json(lines, caplog):
    TaskLog("w1@host", 1.0).finished(TASK)
    (line,) = lines(TASKS)
    assert line == {
        "event": "task",
        "kind": "batch",
        "task": "shop.report",
        "id": "id-1",
        "queue": "celery.batch",
        "enqueued_at": 100.0,
        "pulled_at": 101.0,
        "started_at": 102.5,
        "finished_at": 103.0,
        "wait_seconds": 2.5,
        "run_seconds": 0.5,
        "mode": "open",
        "outcome": "succeeded",
        "worker": "w1@host",
    }
    assert caplog.records[0].celery_fair == line  # for formatters that know of extras


def test_one_that_never_started_says_so(lines):
    TaskLog("w1@host", 1.0).dropped(TASK._replace(started_at=None, finished_at=None, mode=None))
    (line,) = lines(TASKS)
    assert (line["started_at"], line["run_seconds"], line["mode"]) == (None, None, None)


def test_a_change_of_the_gate_is_a_line_with_its_reason(lines):
    TaskLog("w1@host", 0.001).mode_changed(GateChange(5.0, "protected", "backlog", "43 > 10"))
    assert lines(GATE) == [
        {
            "event": "gate",
            "at": 5.0,
            "mode": "protected",
            "cause": "backlog",
            "reason": "43 > 10",
            "worker": "w1@host",
        }
    ]


def test_a_sample_is_of_ids_so_that_retries_stay_together(lines):
    log = TaskLog("w1@host", 0.25)
    for number in range(4_000):
        log.finished(TASK._replace(id=f"id-{number}"))
    first = [line["id"] for line in lines(TASKS)]
    assert 800 < len(first) < 1_200
    for number in range(4_000):
        log.finished(TASK._replace(id=f"id-{number}", outcome="retried"))
    assert [line["id"] for line in lines(TASKS)][len(first) :] == first


def test_nothing_is_written_for_a_logger_that_is_off(caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr("celery_fair.observe.log.task_fields", lambda task: 1 / 0)
    TaskLog("w1@host", 1.0).finished(TASK)
    assert caplog.records == []


def test_the_docs_name_the_loggers_and_each_field():
    text = (Path(__file__).parents[3] / "docs" / "logs-and-traces.md").read_text()
    examples = [json.loads(block) for block in re.findall(r"```json\n(.*?)\n```", text)]
    assert [set(example) for example in examples] == [
        {"event", "worker", *task_fields(TASK)},
        {"event", "worker", *GateChange._fields},
    ]
    assert {TASKS, GATE} <= set(re.findall(r"`(celery_fair\.\w+)`", text))
    hooks = re.findall(r"^\| `(\w+)` \| .*(?:TaskInfo|GateChange)", text, re.MULTILINE)
    assert tuple(hooks) == HOOKS
    for outcome in (*OUTCOMES, *DROPS):
        assert f"`{outcome}`" in text


def test_an_id_can_break_neither_the_line_nor_the_disk(lines, caplog):
    log = TaskLog("w1@host", 1.0)
    log.finished(TASK._replace(id='x\n{"event":"task"}\ud800' + "y" * 10_000))
    assert "\n" not in caplog.records[0].getMessage()
    assert len(lines(TASKS)[0]["id"]) == LONGEST_ID
