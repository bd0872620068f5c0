"""``celery -A proj fair status`` on real workers and brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask
from tests.nodes.answering import until_answered
from tests.nodes.worker import ROOT

APP = "tests.apps.mixed"


@pytest.fixture
def celery_fair(request, broker):
    """``celery_fair("status", "--json", app=…)``: run ``celery fair …`` on the test's broker."""

    def run(*arguments, app=APP) -> subprocess.CompletedProcess[str]:
        def once():
            return subprocess.run(
                [sys.executable, "-m", "celery", "-A", app, "fair", *arguments],
                cwd=ROOT,
                env={**os.environ, **broker.environ(), "COLUMNS": "80"},
                capture_output=True,
                text=True,
                timeout=60,
            )

        return until_answered(once) if "start_worker" in request.fixturenames else once()

    return run


@pytest.fixture
def status(celery_fair):
    """The status as JSON."""

    def ask(*arguments):
        return json.loads(celery_fair("status", "--json", *arguments).stdout)

    return ask


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_busy_worker_shows_what_runs_and_what_waits(start_worker, app, journal, status):
    start_worker(APP, concurrency=4)
    app.tasks["i.sleep"].delay("quick")
    journal.wait_finished("quick")
    for number in range(20):
        app.tasks["b.sleep"].delay(f"b{number}", 60)
    journal.wait_count(2, "start")

    def counted():
        worker = status()["workers"]["w1@test"]
        batch = worker["kinds"]["batch"]
        # All batch tasks are accounted for, by the broker's own count where they wait there.
        return batch["running"] + (batch["backlog"] or 0) == 20 and worker

    worker = wait_until(counted, "a status that knows all 20 batch tasks")
    assert worker["gate"]["mode"] == "open"
    assert worker["slots"]["total"] == 4
    assert 2 <= worker["kinds"]["batch"]["running"] <= 3
    assert worker["kinds"]["interactive"]["wait_seconds"]["count"] == 1
    assert worker["last_batch_start"] > worker["started_at"]
    assert worker["share"]["guaranteed"] == 0.2


def test_two_workers_count_the_brokers_backlog_once(start_worker, app, journal, status):
    start_worker(APP, concurrency=2)
    start_worker(APP, concurrency=2)
    for number in range(30):
        app.tasks["b.sleep"].delay(f"b{number}", 60)

    def counted():
        said = status()
        batch = said["total"]["kinds"]["batch"]
        return (
            len(said["workers"]) == 2
            and batch["running"] >= 2
            and batch["running"] + (batch["backlog"] or 0) == 30
            and said["total"]
        )

    total = wait_until(counted, "a total of 30 batch tasks")
    assert total["slots"]["total"] == 4
    assert total["kinds"]["batch"]["queues"] == ["celery.batch"]


def test_the_text_fits_into_80_columns(start_worker, celery_fair):
    start_worker(APP)
    done = celery_fair("status")
    assert done.returncode == 0
    assert "w1@test   gate open" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_only_the_workers_asked_for_are_shown(start_worker, status):
    start_worker(APP)
    start_worker(APP)
    assert list(status("--destination", "w2@test")["workers"]) == ["w2@test"]


def test_a_worker_without_the_plugin_is_named(start_worker, celery_fair):
    start_worker("tests.apps.plain")
    done = celery_fair("status")
    assert done.returncode == 1
    assert "w1@test works without celery-fair" in done.stdout
    assert "No worker that answered runs celery-fair" in done.stderr


@pytest.mark.brokers("redis", "rabbitmq")
def test_no_worker_is_said_in_one_sentence(celery_fair):
    done = celery_fair("status")
    assert done.returncode == 69
    assert "No worker answered within 1 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reply_stays_small_and_is_plain_json_with_200_queues(start_worker, celery_fair, app):
    queues = [f"queue-{number}" for number in range(200)]
    start_worker(APP, queues=["celery", "celery.batch", *queues])
    said = json.loads(celery_fair("status", "--json").stdout)["workers"]["w1@test"]
    assert len(said["kinds"]["interactive"]["queues"]) == 201
    assert len(json.dumps(said, separators=(",", ":"))) <= 8192
    for question in ({"task_id": "an-id" * 51}, {"recent": 10}):
        (reply,) = app.control.broadcast("fair_explain", question, reply=True, timeout=5, limit=1)
        assert len(json.dumps(reply, separators=(",", ":"))) <= 8192


def test_celerys_own_inspect_stats_carries_a_flat_fair_key(start_worker, broker):
    start_worker(APP)
    app = mixed.make_app(broker)
    stats = ask(app, "w1@test", "stats")
    assert stats["fair"]["slots"] == 2
    assert all(isinstance(value, str | int | float) for value in stats["fair"].values())
    app.close()
