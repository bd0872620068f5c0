"""``celery fair resources``: what it tells, and what it says where there is nothing to ask."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_fair import Fair
from celery_fair.cli import fair
from celery_fair.resources.memory_store import MemoryStore
from celery_fair.resources.store import Want
from celery_fair.worker.clearing.needs import Needs
from celery_fair.worker.clearing.waiting import LONGEST_ID, Waiting
from tests.brokers.process import free_port

EX_UNAVAILABLE, EX_CONFIG = 69, 78
WORKER = "web1@shop/0a1b2c3d"
RESOURCES = {"gpu": {"max_running": 1}, "openai": {"tokens_per_minute": 6000.0}}


def want(id, kind="batch", uses=("gpu",)):
    """As the worker makes it."""
    held = SimpleNamespace(request=SimpleNamespace(id=id), received_at=0.0, sequence=1)
    waiting = Waiting(SimpleNamespace(kind=kind), held, Needs(uses, 0, False))
    waiting.wants_anew(WORKER)
    return waiting.want


@pytest.fixture
def run():
    def run(app, *arguments):
        context = CLIContext(app=app, no_color=True, workdir=None)
        return CliRunner().invoke(fair, ["resources", *arguments], obj=context)

    return run


@pytest.fixture
def shared(make_app):
    """An app whose resources are kept in memory."""
    app = make_app(fair={"resources": RESOURCES})
    resources = Fair.of(app).resources
    resources._store = MemoryStore(resources.rules)
    return app


def test_it_tells_of_each_resource_and_of_who_holds_it(run, shared):
    store = Fair.of(shared).resources.store
    store.turn(WORKER, [want("first"), want("second")], [], [])
    store.slow_down("openai", 20.0)
    text = run(shared).stdout
    assert "gpu: 1 of 1 running (1 batch), 1 wait (1 batch)\n  web1@shop  batch  " in text
    assert "first\n" in text
    assert "second" not in text
    gpu, openai = json.loads(run(shared, "--json").stdout)["resources"]
    (held,) = gpu["held"]
    assert (held["worker"], held["task"], held["kind"]) == ("web1@shop", "first", "batch")
    assert held["since"] == pytest.approx(time.time(), abs=60.0)
    assert (gpu["slowed_until"], openai["held"]) == (None, [])
    assert openai["slowed_until"] > time.time()


def test_a_lease_of_some_other_make_has_its_holder_and_no_task(run, shared):
    Fair.of(shared).resources.store.turn("w", [Want("w/7", "interactive", ("gpu",))], [], [])
    (held,) = json.loads(run(shared, "--json").stdout)["resources"][0]["held"]
    assert (held["worker"], held["task"], held["kind"]) == ("w", None, "interactive")


def test_the_id_of_a_task_is_its_own_affair_and_steers_no_terminal(run, shared):
    store = Fair.of(shared).resources.store
    store.turn(WORKER, [want("a/b\x1b[2J" + "c" * 1000)], [], [])
    (held,) = json.loads(run(shared, "--json").stdout)["resources"][0]["held"]
    assert held["task"] == ("a/b\x1b[2J" + "c" * 1000)[:LONGEST_ID]
    assert "\x1b" not in run(shared).stdout


def test_those_that_are_too_many_to_show_are_counted(run, make_app):
    app = make_app(fair={"resources": {"gpu": {"max_running": 30}}})
    resources = Fair.of(app).resources
    resources._store = MemoryStore(resources.rules)
    resources.store.turn(WORKER, [want(f"task-{number}") for number in range(13)], [], [])
    assert "  and 3 more\n" in run(app).stdout
    assert len(json.loads(run(app, "--json").stdout)["resources"][0]["held"]) == 13


def test_where_nothing_is_set_it_says_so_and_asks_nobody(run, make_app):
    app = make_app()
    said = run(app)
    assert said.exit_code == 0
    assert "No resource is set" in said.stdout
    assert json.loads(run(app, "--json").stdout) == {"resources": []}


def test_without_a_redis_it_says_what_to_set(run, make_app):
    said = run(make_app(fair={"resources": RESOURCES}))
    assert said.exit_code == EX_CONFIG
    assert "set state_url" in said.stderr


def test_a_redis_that_does_not_answer_is_told_with_its_cure(run, make_app):
    url = f"redis://127.0.0.1:{free_port()}/0"
    said = run(make_app(fair={"resources": RESOURCES, "state_url": url}))
    assert said.exit_code == EX_UNAVAILABLE
    assert "the state's Redis can't be asked now: is it running" in said.stderr


def test_an_app_without_celery_fair_is_told_so(run, make_app):
    said = run(make_app(install=False))
    assert said.exit_code == EX_CONFIG
    assert "resources are shared out by celery-fair" in said.stderr


def test_an_id_that_is_no_text_stops_nobody():
    """Redis's JSON knows no half of a character: one such message would end the turn of all."""
    want("a\ud800b").lease.encode()
