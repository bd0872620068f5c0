"""The commands on one real worker: Celery's own tools, the examples of the help, and pipes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import ANY

import pytest
from celery.bin.base import CLIContext
from celery.worker.control import Panel
from click.testing import CliRunner

from celery_fair import Fair
from celery_fair.cli import fair
from celery_fair.cli.examples import EXAMPLES
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.brokers.redis import RedisServer
from tests.brokers.waiting import wait_until
from tests.nodes.answering import until_answered
from tests.nodes.worker import ROOT, WorkerProcess
from tests.unit.jobs.kept import keep

APP = "tests.apps.mixed"
#: What Celery's panel has of ours, in this process as in any that runs `celery`.
OURS = sorted(name for name in Panel.data if Panel.data[name].__module__.startswith("celery_fair."))
#: They need no more than a worker; the others a site of their own.
RUNNABLE = ("status", "top", "pause", "resume", "set", "bench")
#: So that a test is a short one; click takes the last value of an option.
SHORT = {"bench": ("--seconds=0.2", "--patience=0.2", "--rate=5", f"--save={os.devnull}")}

NUMBER = re.compile(r"(\d[\d.:]*|–)( (ms|s|min|h|d|%)\b)?")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A busy worker that both kinds want slots of."""
    folder = tmp_path_factory.mktemp("commands")
    server = RedisServer(folder)
    worker = None
    try:
        broker = Broker("redis", server.start().url, server.url)
        env = {"JOURNAL": str(folder / "journal.jsonl")}
        worker = WorkerProcess(
            APP, broker, folder / "w", concurrency=4, hostname="web1@shop", env=env
        )
        worker.start()
        app = mixed.make_app(broker)
        for number in range(400):
            app.tasks["b.sleep"].delay(f"b{number}", 0.5)
            app.tasks["i.sleep"].delay(f"i{number}", 0.5)
        wait_until(lambda: _has_a_share(app), "a share of batch")
        yield broker
        app.close()
    finally:
        if worker is not None:
            worker.close()
        server.close()


def _has_a_share(app) -> bool:
    replies = app.control.broadcast("fair_status", reply=True, limit=1, timeout=2)
    return any(reply["web1@shop"]["share"]["received"] is not None for reply in replies)


@pytest.fixture
def celery(site):
    """``celery("inspect", "ping")``: run it on the worker's broker, in 80 columns."""

    def run(*arguments, app=APP, shell=None):
        head = ["-A", app] if app else ["-b", site.url]
        command = [sys.executable, "-m", "celery", *head, *arguments]
        if shell:
            command = ["sh", "-c", f'"$@" | {shell}', "-", *command]
        env = {**os.environ, **site.environ(), "COLUMNS": "80"}

        def once():
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
            )
            if "No worker answered" in done.stderr:  # also where the pipe has another code
                done.returncode = os.EX_UNAVAILABLE
            return done

        return until_answered(once)

    return run


# In Celery's own tools


@pytest.mark.parametrize("tool", ["inspect", "control"])
def test_celery_lists_each_of_our_commands_where_no_app_is_known(tool, celery):
    done = celery(tool, "--list", app=None)
    assert done.returncode == 0, done.stderr
    ours = [name for name in OURS if Panel.meta[name].type == tool and Panel.meta[name].visible]
    assert ours
    for name in ours:
        meta = Panel.meta[name]
        assert re.search(rf"^  {name}\b", done.stdout, re.MULTILINE), done.stdout
        assert meta.help, f"{name} has no line that says what it does"
        assert meta.help.endswith(".")
        assert "\n" not in meta.help.strip()
        assert bool(meta.args or meta.variadic) == bool(meta.signature), name


def test_celery_shows_the_facts_of_a_worker(celery):
    done = celery("inspect", "-t", "0.4", "--json", "fair_status", app=None)
    assert json.loads(done.stdout)["web1@shop"]["slots"]["total"] == 4


@pytest.fixture
def ask(site):
    app = mixed.make_app(site)

    def ask(command, arguments):
        (reply,) = app.control.broadcast(command, arguments, reply=True, timeout=5, limit=1)
        return reply["web1@shop"]

    yield ask
    app.close()


@pytest.mark.parametrize("arguments", ["none", "unreadable"])
@pytest.mark.parametrize("name", OURS)
def test_a_worker_answers_whatever_it_is_asked_with_json(name, arguments, ask):
    """What is missing or no value is said in a sentence, and not as Python's own complaint."""
    meta = Panel.meta[name]
    names = [each[0] for each in meta.args or ()] + ([meta.variadic] if meta.variadic else [])
    junk = {name: [{"a": None}] for name in [*names, "nosuchargument"]}
    reply = ask(name, junk if arguments == "unreadable" else {})
    assert isinstance(reply, dict), reply
    json.dumps(reply)
    error = str(reply.get("error", ""))
    assert not re.search(r"\w+(Error|Exception)\(", error), error
    assert "argument" not in error or "positional" not in error


# As the help says


def shape(text: str) -> list[str]:
    """The beginning of each line and the column's names, whatever figures and reasons there are."""
    text = re.sub(r"\(.*?\)", "", text, flags=re.DOTALL)  # why the gate is as it is
    text = re.sub(r"(?<!\S)[BIr.]{4}(?!\S)", "", text)  # who holds the slots
    lines = [NUMBER.sub("#", line).split() for line in text.splitlines() if line.strip()]
    names = ["interactive", "batch"]
    return [
        " ".join(words if words[-1] in ("p95", "p99") else words[: 1 if words[0] in names else 2])
        for words in lines
    ]


@pytest.mark.parametrize("command", RUNNABLE)
def test_an_example_of_the_help_is_what_comes_today(command, site, monkeypatch):
    first, example = EXAMPLES[command].split("\n", 1)
    typed = first.removeprefix("$ celery -A shop fair ").split()
    monkeypatch.setenv("COLUMNS", "80")
    app = mixed.make_app(site)
    context = CLIContext(app=app, no_color=True, workdir=None)
    arguments = [*typed, "-t", "0.4", *SHORT.get(command, ())]
    done = until_answered(
        lambda: CliRunner().invoke(fair, arguments, obj=context), lambda done: done.exit_code
    )
    app.close()
    now = shape(done.stdout)
    assert [line for line in shape(example) if line not in now] == [], done.output


# Jobs, which the state's Redis keeps


def test_a_job_is_paused_seen_and_cancelled_while_somebody_watches_it(celery, site):
    app = mixed.make_app(site)
    job = Fair.of(app).job("nightly")
    keep(Fair.of(app).jobs.store, "nightly", 7)
    paused = celery("fair", "job", "pause", "night", "--reason", "model is down")
    assert "paused (model is down, by " in paused.stdout, paused.stderr
    assert json.loads(celery("fair", "job", "show", "n", "--json").stdout) == {
        **job.progress().as_dict(), "asked_at": ANY,
    }  # fmt: skip
    with ThreadPoolExecutor(1) as others:
        watched = others.submit(celery, "fair", "job", "watch", "nightly", "-i", "0.2", "--json")
        job.cancel("enough")
        done = watched.result(60)
    app.close()
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "cancelled"


# Into pipes


def test_a_pipe_that_is_closed_early_is_no_error(celery):
    done = celery("fair", "status", "-t", "0.4", "--json", shell="head -1")
    assert done.stdout == "{\n"
    assert done.stderr == ""
