"""The demo's figures: honest about what had not ended, and the same load for both sides."""

from __future__ import annotations

import io
import json
import sys

import pytest
from click.testing import CliRunner
from rich.console import Console

from celery_fair.__main__ import main
from celery_fair.demo.figures import JournalReader, Side, Wait, quantile
from celery_fair.demo.load import Load
from celery_fair.demo.show import bar, show_results


def waits(*seconds):
    return [Wait(each) for each in seconds]


def test_quantiles_of_ended_waits_are_exact():
    measured = waits(*range(100))
    assert quantile(measured, 0.5) == Wait(50)
    assert quantile(measured, 0.95) == Wait(95)
    assert quantile(measured, 1.0) == Wait(99)
    assert quantile([], 0.5) is None


def test_a_wait_that_goes_on_marks_every_quantile_it_could_raise():
    measured = [*waits(1, 2, 3), Wait(2.5, at_least=True)]
    assert quantile(measured, 0.0) == Wait(1)
    assert quantile(measured, 0.5) == Wait(2.5, at_least=True)
    assert quantile(measured, 1.0) == Wait(3, at_least=True)


def test_a_task_that_never_started_counts_with_what_it_has_waited():
    side = Side("plain", 10.0, sent_at={0: 100.0, 1: 104.0}, waits={0: 0.5}, ended_at=110.0)
    assert side.interactive_waits(110.0) == [Wait(0.5), Wait(6.0, at_least=True)]
    assert side.as_dict()["interactive"]["at_least"] == {"p50": True, "p95": True, "max": True}
    assert side.as_dict()["interactive"]["started"] == 1


def test_batch_counts_only_within_the_time_that_both_sides_have():
    side = Side("plain", 10.0, began_at=100.0)
    for at in (101.0, 110.0, 110.5):
        side.take({"event": "done", "kind": "batch", "number": 0, "at": at})
    assert side.batch_done == 2


def test_the_load_is_the_same_each_time():
    assert Load().schedule() == Load().schedule()


def test_the_load_floods_first_and_then_sends_as_much_batch_as_there_are_slots():
    load = Load(seconds=100.0)
    batch = [sending for sending in load.schedule() if sending.kind == "batch"]
    assert sum(sending.at == 0 for sending in batch) == load.batch_at_once
    offered = sum(sending.run_seconds for sending in batch if sending.at > 0)
    assert offered == pytest.approx(load.slots * load.end, rel=0.1)


def test_interactive_tasks_are_sent_as_long_as_the_load_lasts():
    load = Load(seconds=100.0)
    times = [sending.at for sending in load.schedule() if sending.kind == "interactive"]
    assert len(times) == pytest.approx(400, rel=0.1)
    assert 99.0 < max(times) < 100.0


def test_the_journal_is_read_line_by_line_even_while_one_is_written(tmp_path):
    path = tmp_path / "journal"
    reader = JournalReader(path)
    assert reader.new() == []
    path.write_text('{"event": "a"}\n{"eve')
    assert reader.new() == [{"event": "a"}]
    path.write_text('{"event": "a"}\n{"event": "b"}\n')
    assert reader.new() == [{"event": "b"}]


def test_a_bar_is_as_long_as_its_part_and_never_nothing():
    assert bar(1.0) == "█" * 40
    assert bar(0.5) == "█" * 20
    assert bar(0.0001) == "▏"


def test_the_results_say_what_the_mark_means():
    sides = [
        Side("plain Celery", 10.0, sent_at={0: 100.0, 1: 101.0}, waits={0: 4.0}, ended_at=112.0),
        Side("celery-fair", 10.0, sent_at={0: 100.0}, waits={0: 0.004}, batch_done=7),
    ]
    out = io.StringIO()
    show_results(Console(file=out, width=80), sides)
    assert "≥ 11 s" in out.getvalue()
    assert "on plain Celery 1 of 2 interactive tasks had not started" in out.getvalue()
    assert max(len(line) for line in out.getvalue().splitlines()) <= 80


@pytest.fixture
def no_redis_server(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_neither_server_nor_stand_in_is_an_error_with_its_cure(monkeypatch, no_redis_server):
    monkeypatch.setitem(sys.modules, "fakeredis", None)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1
    assert "neither redis-server on the PATH nor fakeredis" in result.stderr
    assert 'pip install "celery-fair[demo]"' in result.stderr


def test_a_missing_client_library_is_an_error_with_its_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "redis", None)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1
    assert 'the package redis is missing: pip install "celery-fair[demo]"' in result.stderr


def test_without_a_command_there_is_help():
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0
    assert "demo" in result.stdout


def test_figures_are_plain_json():
    side = Side("plain", 10.0, sent_at={0: 100.0}, ended_at=101.0)
    assert json.loads(json.dumps(side.as_dict()))["interactive"]["sent"] == 1
