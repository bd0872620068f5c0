"""``celery fair …`` as a program: exit codes, JSON, and what it says when nobody answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from importlib import import_module

import click
import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import doctor, fair, remote, status
from celery_fair.observe import listening
from tests.brokers.process import free_port
from tests.unit.cli.conftest import add_task
from tests.unit.cli.replies import report

EX_UNAVAILABLE = 69


@pytest.fixture
def app(make_app):
    return make_app()


@pytest.fixture
def invoke(app):
    def invoke(*arguments, app=app):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, arguments, obj=context)

    return invoke


@pytest.fixture
def answer(monkeypatch):
    """``answer(fair_status={…}, …)``: what the workers reply; the calls made are returned."""

    def answer(**replies):
        calls = []

        def ask(app, command, **options):
            calls.append((command, options))
            return replies.get(command, {})

        for module in ("celery_fair.cli.status", "celery_fair.cli.doctor_replies"):
            monkeypatch.setattr(import_module(module), "ask", ask)
        return calls

    return answer


def test_status_shows_the_workers_that_answer(invoke, answer):
    answer(fair_status={"w1@host": report()})
    result = invoke("status")
    assert result.exit_code == 0
    assert "w1@host" in result.stdout


def test_status_as_json_has_workers_and_a_total(invoke, answer):
    answer(fair_status={"w1": report(), "old": {"error": "no"}})
    said = json.loads(invoke("status", "--json").stdout)
    assert said["workers"] == {"w1": report()}
    assert said["without_celery_fair"] == {"old": "no"}
    assert said["total"]["workers"] == 1


def test_status_asks_whom_it_is_told_to_for_as_long_as_it_is_told_to(invoke, answer):
    calls = answer(fair_status={"w1": report()})
    invoke("status", "--timeout", "2.5", "--destination", "w1,w2")
    assert calls == [("fair_status", {"timeout_seconds": 2.5, "destination": ["w1", "w2"]})]


def test_no_answer_is_said_with_a_hint_and_celerys_exit_code(invoke, answer):
    answer()
    result = invoke("status")
    assert result.exit_code == EX_UNAVAILABLE
    assert "No worker answered within 1 s on memory://" in result.stderr


def test_no_answer_is_json_too(invoke, answer):
    answer()
    result = invoke("status", "--json")
    assert result.exit_code == EX_UNAVAILABLE
    assert json.loads(result.stdout)["workers"] == {}


def test_workers_that_all_lack_the_plugin_have_an_exit_code_of_their_own(invoke, answer):
    answer(fair_status={"old": {"error": "KeyError('fair_status')"}})
    result = invoke("status")
    assert result.exit_code == 1
    assert "old works without celery-fair" in result.stdout
    assert "call Fair(app)" in result.stderr


def test_a_lost_broker_is_said_without_a_traceback(invoke, make_app):
    lost = make_app(f"redis://:secret@127.0.0.1:{free_port()}/0")
    result = invoke("status", app=lost)
    assert result.exit_code == EX_UNAVAILABLE
    assert "can't be reached" in result.stderr
    assert "secret" not in result.output
    assert isinstance(result.exception, SystemExit)


def test_a_transport_without_remote_control_is_said(invoke, make_app, tmp_path):
    result = invoke("status", app=make_app(f"sqla+sqlite:///{tmp_path}/x.db"))
    assert result.exit_code == EX_UNAVAILABLE
    assert "has no remote control" in result.stderr


def test_an_error_of_a_command_is_no_traceback_for_celery():
    assert issubclass(remote.Unreachable, click.ClickException)


@pytest.fixture
def _has_timeouts(monkeypatch):
    """Else the doctor has some advice."""
    for kind in ("INTERACTIVE", "BATCH"):
        monkeypatch.setenv(f"CELERY_FAIR__{kind}_TIMEOUT_SECONDS", "60")


@pytest.mark.usefixtures("_has_timeouts")
def test_doctor_finds_nothing_in_order_and_ends_with_0(invoke, answer):
    queues = [{"name": "celery"}, {"name": "celery.batch"}]
    answer(fair_status={"w1": report()}, active_queues={"w1": queues}, stats={"w1": {}})
    result = invoke("doctor")
    assert result.exit_code == 0
    assert "Nothing found" in result.stdout


def test_doctor_ends_with_1_on_a_warning(app, invoke):
    add_task(app, "shop.report")
    result = invoke("doctor", "--no-broker")
    assert result.exit_code == 1
    assert "F001 warning  1 task has no kind: shop.report" in result.stdout
    assert "cure" in result.stdout


def test_doctor_ends_with_0_on_notes_alone(invoke, make_app):
    result = invoke("doctor", "--no-broker", app=make_app(fair={"enabled": False}))
    assert result.exit_code == 0
    assert "F008 info" in result.stdout
    assert "1 note" in result.stdout


@pytest.mark.usefixtures("_has_timeouts")
def test_doctor_as_json_has_the_findings_whole(app, invoke):
    add_task(app, "shop.report")
    (finding,) = json.loads(invoke("doctor", "--no-broker", "--json").stdout)["findings"]
    assert finding["id"] == "F001"
    assert finding["severity"] == "warning"
    assert finding["subjects"] == ["shop.report"]
    assert all(finding[part] for part in ("what", "why", "cure"))


def test_doctor_without_a_broker_asks_nobody(invoke, answer):
    calls = answer()
    assert invoke("doctor", "--no-broker").exit_code == 0
    assert calls == []


def test_doctor_says_that_no_worker_answered(invoke, answer):
    answer()
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "F102 warning" in result.stdout


def test_doctor_shows_what_the_app_tells_although_the_broker_is_lost(invoke, make_app):
    lost = make_app(f"redis://127.0.0.1:{free_port()}/0", tasks=["shop.report"])
    result = invoke("doctor", app=lost)
    assert result.exit_code == 1
    assert "F101 error" in result.stdout
    assert "F001 warning" in result.stdout


@pytest.mark.parametrize("command", [status, doctor])
def test_each_command_tells_its_exit_codes(invoke, command):
    assert "Exit code" in invoke(command.name, "--help").stdout


def test_an_apps_own_preload_options_do_no_harm(invoke, answer, monkeypatch):
    """Celery hands them to every plugin's group as keyword arguments."""
    answer(fair_status={"w1": report()})
    monkeypatch.setattr(fair, "params", [*fair.params, click.Option(["--site"])])
    assert invoke("--site", "x", "status").exit_code == 0


def test_celery_knows_the_commands():
    done = subprocess.run(
        [sys.executable, "-m", "celery", "fair", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "status" in done.stdout
    assert "doctor" in done.stdout


def test_celery_inspect_knows_fair_status_without_any_app():
    done = subprocess.run(
        [sys.executable, "-m", "celery", "inspect", "--list"], capture_output=True, text=True
    )
    assert "fair_status" in done.stdout


def test_what_only_a_command_needs_is_not_loaded_with_every_celery():
    code = (
        "import sys, celery_fair.cli;"
        "print([name for name in ('rich', 'celery_fair.doctor', 'celery_fair.worker.scheduler',"
        "'celery_fair.demo') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_redis_that_takes_connections_and_answers_nothing_is_not_waited_for(
    make_app, monkeypatch
):
    monkeypatch.setattr(listening, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        app = make_app(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        began = time.monotonic()
        with pytest.raises(remote.Unreachable, match="Timeout"):
            remote.ask(app, "fair_status", timeout_seconds=0.1)
        assert time.monotonic() - began < 5
