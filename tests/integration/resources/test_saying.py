"""What a task says as it runs reaches the store of all workers."""

from __future__ import annotations

import json

import pytest

from celery_fair import Fair
from celery_fair.resources.store import ResourceView
from tests.apps import sharing
from tests.brokers.waiting import wait_until

RESOURCES = {"openai": {"max_running": 4, "tokens_per_minute": 60_000, "burst_seconds": 1.0}}


@pytest.fixture
def app(broker, monkeypatch):
    monkeypatch.setenv("RESOURCES", json.dumps(RESOURCES))
    app = sharing.make_app(broker)
    yield app
    Fair.of(app).uninstall()
    app.close()


def view(app) -> ResourceView:
    return Fair.of(app).resources.store.views()[0]


@pytest.mark.brokers("redis")
@pytest.mark.parametrize("pool", ["prefork"])
def test_a_refused_task_runs_again_and_what_was_used_is_charged(
    broker, app, start_worker, journal, pool
):
    start_worker("tests.apps.sharing", pool=pool, concurrency=2, env={"CELERY_FAIR__RESERVE": "0"})
    wait_until(lambda: view(app).tokens_left == 1000.0, "a full budget")
    app.tasks["i.charges"].apply_async(("heavy", 40_000))
    journal.wait_finished("heavy")
    left = view(app).tokens_left
    assert -39_000.0 <= left < -20_000.0, "40,000 were used, though 1,000 were estimated"
    Fair.of(app).charge("openai", tokens=-40_000)
    app.tasks["i.is_refused"].apply_async(("refused",))
    journal.wait_finished("refused")
    assert journal.started().count("refused") == 2
    assert view(app).rate < 1.0
