"""What every command may meet: one sentence with a cure, an exit code, and no traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import celery
import click
import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair.cli import fair
from celery_fair.cli.failing import told
from celery_fair.errors import FairError
from tests.brokers.process import free_port
from tests.nodes.worker import ROOT

#: What each command needs to be called at all; one that is not named here needs nothing.
ARGUMENTS = {
    "explain": ("8c0ffe00-0000-4000-8000-000000000000",),
    "pause": ("batch",),
    "resume": ("batch",),
    "set": ("batch_share=0.3",),
    "mode": ("observe",),
    "drain": ("w1@host",),
    "top": ("--once",),
    "job": ("list",),
    "record": ("--to", "day.jsonl"),
}
#: They ask nobody: test_simulate.py and test_advise.py have what they may meet.
ALONE = {"advise", "simulate"}
COMMANDS = sorted(fair.commands.keys() - ALONE)
#: They serve until they are ended, and try a broker that is away again and again.
SERVING = {"exporter", "flower"}
#: It tells what it met among its findings.
FINDING = {"doctor"}
#: They ask the state's Redis, and no worker: test_job_commands.py has what they meet.
OF_STATE = {"job", "resources"}


def call(command):
    return [command, *ARGUMENTS.get(command, ())]


@pytest.mark.parametrize("number", ["nan", "inf", "0"])
@pytest.mark.parametrize(
    "option",
    [(command, "--timeout") for command in COMMANDS
     if any("--timeout" in option.opts for option in fair.commands[command].params)]
    + [("bench", "--seconds"), ("bench", "--rate"), ("bench", "--patience"), ("top", "-i")],
)  # fmt: skip
def test_a_time_that_is_none_is_refused(option, number):
    command, name = option
    done = CliRunner().invoke(fair, [*call(command), name, number], obj=None)
    assert done.exit_code == 2, (done.output, done.exception)
    assert f"Invalid value for '{name}'" in done.output or f"/ '{name}'" in done.output


@pytest.fixture
def run(tmp_path):
    """``run(*arguments)``: ``celery …`` as a process, in a folder without a celeryconfig."""

    def run(*arguments, **env) -> subprocess.CompletedProcess[str]:
        known = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
        for name in ("BROKER", "CELERY_BROKER_URL", "CELERY_APP"):
            known.pop(name, None)
        return subprocess.run(
            [sys.executable, "-m", "celery", *arguments],
            cwd=tmp_path,
            env={**known, **env},
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


def invoke(make_app, command, url="memory://"):
    context = CLIContext(app=make_app(url), no_color=True, workdir=None)
    return CliRunner().invoke(fair, call(command), obj=context)


def is_one_sentence(said: str) -> bool:
    return said.startswith("Error: ") and said.count("\n") == 1 and "Traceback" not in said


# What they are called with


def test_without_an_app_the_word_is_which_option_names_it(run):
    done = run("fair", "status")
    assert done.returncode == 2
    assert "`celery -A proj fair status`" in done.stderr
    assert is_one_sentence(done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_takes_celerys_default_app_for_the_users(command, make_app):
    """Its broker would be RabbitMQ on this machine, which may even be there."""
    default = make_app(broker_url=None)
    root = click.Group("celery", params=[click.Option(["-A", "--app"])], commands=[fair])
    context = CLIContext(app=default, no_color=True, workdir=None)
    result = CliRunner().invoke(root, ["fair", *call(command)], obj=context)
    assert result.exit_code == 2, result.output
    assert f"`celery -A proj fair {command}`" in result.stderr
    assert is_one_sentence(result.stderr)


def test_help_needs_no_app(run):
    assert run("fair", "status", "--help").returncode == 0


@pytest.mark.parametrize("arguments", [("F103",), ("--list",)])
def test_what_the_doctor_explains_needs_no_app(run, arguments):
    done = run("fair", "doctor", *arguments)
    assert done.returncode == 0, done.stderr
    assert "F103" in done.stdout


def test_an_app_that_is_nowhere_is_named(run):
    done = run("-A", "nosuchapp", "fair", "status")
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith("The module nosuchapp was not found.")


def test_an_app_that_fails_to_load_says_what_failed(run, tmp_path):
    (tmp_path / "broken_shop.py").write_text("import nosuchpackage\n", encoding="utf-8")
    done = run("-A", "broken_shop", "fair", "status")
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith("No module named 'nosuchpackage'")


# The broker


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - FINDING))
@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("reds://h/0", "no transport 'reds'; did you mean 'redis'?"),
        ("redis://:sec/ret@h:aport/0", "expected transport://user:password@host:port/name"),
    ],
)
def test_a_url_that_is_none_is_said(command, url, said, make_app):
    result = invoke(make_app, command, url)
    assert result.exit_code == 69, (result.output, result.exception)
    assert said in result.stderr
    assert "sec" not in result.stderr
    assert is_one_sentence(result.stderr)


def test_a_redis_database_that_is_no_number_is_said(make_app):
    result = invoke(make_app, "status", "redis://127.0.0.1:1/shop")
    assert result.exit_code == 69, (result.output, result.exception)
    assert "a number for the name of a Redis database" in result.stderr
    assert is_one_sentence(result.stderr)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - FINDING - OF_STATE - SERVING))
def test_a_broker_that_is_away_is_said(command, make_app):
    result = invoke(make_app, command, f"redis://:secret@127.0.0.1:{free_port()}/0")
    assert result.exit_code == 69, (result.output, result.exception)
    assert "can't be reached: is it running" in result.stderr
    assert "secret" not in result.output
    assert is_one_sentence(result.stderr)


def test_the_doctor_has_a_finding_of_it_instead(make_app):
    result = invoke(make_app, "doctor", "reds://h/0")
    assert result.exit_code == 1
    assert "F101 error" in result.stdout


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - FINDING - OF_STATE - {"flower"}))
def test_a_transport_that_can_ask_nobody_is_said(command, make_app, tmp_path):
    result = invoke(make_app, command, f"sqla+sqlite:///{tmp_path}/x.db")
    assert result.exit_code == 69, (result.output, result.exception)
    assert "The transport of" in result.stderr
    assert is_one_sentence(result.stderr)


# What is installed


def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(run):
    block = "import sys; sys.modules['prometheus_client'] = None; "
    code = block + "from celery.bin.celery import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "-b", "memory://", "fair", "exporter"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 69
    assert "pip install 'celery-fair[prometheus]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("package", "cure"),
    [("redis", "pip install 'celery-fair[redis]'"), ("rich", "pip install rich")],
)
def test_a_command_without_a_package_that_it_needs_says_how_to_get_it(run, package, cure):
    """In a process of its own, in which nothing has loaded it."""
    code = (
        f"import sys; sys.modules['{package}'] = None; from celery_fair.cli.group import FairGroup;"
        "from celery_fair.cli.status import status; from celery import Celery;"
        "from celery.bin.base import CLIContext; import celery_fair.cli.status as module;"
        "url = 'redis://127.0.0.1:1/0' if sys.argv[1] == 'redis' else 'memory://';"
        "group = FairGroup('fair'); group.add_command(status);"
        "group(['status'], obj=CLIContext(Celery(broker=url), True, None))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, package], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 69, (done.stdout, done.stderr)
    assert cure in done.stderr
    assert "Traceback" not in done.stderr


def of(callback) -> click.testing.Result:
    context = CLIContext(app=None, no_color=True, workdir=None)
    return CliRunner().invoke(click.Command("status", callback=told(callback)), [], obj=context)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ImportError("No module named 'redis'", name="redis"), 69, "celery-fair[redis]"),
        (ImportError("No module named 'boto3'", name="boto3"), 69, "installed in this environment"),
        (FairError("expected a share"), 78, "expected a share"),
        (OSError(errno.ENOSPC, "No space left on device"), 74, "No room is left for the output"),
    ],
)
def test_what_stands_in_the_way_is_a_sentence_with_an_exit_code(error, code, said):
    def fail():
        raise error

    result = of(fail)
    assert result.exit_code == code
    assert said in result.stderr
    assert is_one_sentence(result.stderr)


def test_a_defect_keeps_its_traceback():
    def fail():
        raise ZeroDivisionError

    assert isinstance(of(fail).exception, ZeroDivisionError)


def test_too_old_a_celery_is_said_before_anything_fails_for_it(monkeypatch):
    monkeypatch.setattr(celery, "VERSION", (5, 4, 0, "", ""))
    monkeypatch.setattr(celery, "__version__", "5.4.0")
    result = of(lambda: None)
    assert result.exit_code == 69
    assert "Celery 5.5 or newer, and this is 5.4.0" in result.stderr


# How they are ended


def test_ctrl_c_ends_a_command_with_the_shells_code_and_no_word():
    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)

    result = of(interrupted)
    assert result.exit_code == 130
    assert "Traceback" not in result.output
