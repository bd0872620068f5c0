"""A busy worker keeps nothing that another one could run (CASES A1, A5)."""

from __future__ import annotations

import json

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


def _wait_fleet(app, workers, size):
    wait_until(
        lambda: all(ask(app, w.hostname)["fleet"]["workers"] == size for w in workers),
        f"a fleet of {size}",
        timeout=30,
        poll_seconds=0.2,
    )


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_what_a_busy_worker_has_caught_goes_to_a_free_one(pool, start_worker, app, journal):
    """Ten interactive tasks and one more long batch task, with one of two workers busy for long."""
    # Without a reserve, which would keep the second worker free of batch.
    env = {
        "CELERY_CONF": json.dumps({"worker_prefetch_multiplier": 1}),
        "CELERY_FAIR__RESERVE": "0",
    }
    workers = [
        start_worker("tests.apps.mixed", pool=pool, concurrency=1, env=env) for _ in range(2)
    ]
    _wait_fleet(app, workers, 2)
    publish(app, "b.sleep", ["long"], 60)
    busy = journal.wait_started("long")[-1].pid
    for label in labels("quick", 10):
        publish(app, "i.sleep", [label])
        journal.wait_finished(label, timeout=20)
    publish(app, "b.sleep", ["second"], 60)
    journal.wait_started("second", timeout=20)
    assert journal.running() == ["long", "second"]
    pids = {entry.pid for entry in journal.entries("start") if entry.label != "long"}
    assert busy not in pids


@pytest.mark.brokers("redis", "rabbitmq")
def test_no_batch_task_waits_behind_one_that_blocks(start_worker, app, journal):
    """A5: two workers of four slots, one of which is taken for long."""
    workers = [start_worker("tests.apps.mixed", concurrency=4) for _ in range(2)]
    _wait_fleet(app, workers, 2)
    publish(app, "b.sleep", ["blocker"], 60)
    journal.wait_started("blocker")
    publish(app, "b.sleep", labels("batch", 8), 0.3)
    publish(app, "i.sleep", labels("quick", 8))
    journal.wait_finished(*labels("batch", 8), *labels("quick", 8), timeout=30)
    assert journal.running() == ["blocker"]


@pytest.mark.brokers("filesystem")
def test_a_worker_without_a_view_is_a_fleet_of_its_own(start_worker, app, journal):
    worker = start_worker("tests.apps.mixed", concurrency=3)
    publish(app, "b.sleep", labels("batch", 6), 0.1)
    journal.wait_finished(*labels("batch", 6), timeout=20)
    assert ask(app, worker.hostname)["fleet"] == {"workers": 1, "slots": 3, "in_sight": True}
