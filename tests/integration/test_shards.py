"""A kind spread over shards: who consumes them, what is lost as their number changes, turns."""

from __future__ import annotations

import pytest

from celery_fair import Fair
from tests.apps import mixed
from tests.integration.contract.site import ask, labels, publish

SHARDS = 8
SETTINGS = {"CELERY_FAIR__RESERVE": "0", "CELERY_FAIR__BATCH_SHARDS": str(SHARDS)}


@pytest.fixture
def app(broker, monkeypatch):
    monkeypatch.setenv("CELERY_FAIR__BATCH_SHARDS", str(SHARDS))
    app = mixed.make_app(broker)
    yield app
    Fair.of(app).admission.close()
    app.close()


@pytest.fixture
def start(start_worker):
    def start(pool="threads", slots=2, env=None, **options):
        return start_worker(
            "tests.apps.mixed",
            pool=pool,
            concurrency=slots,
            env={**SETTINGS, **(env or {})},
            **options,
        )

    return start


@pytest.mark.brokers("redis", "rabbitmq")
def test_whoever_consumes_a_queue_consumes_its_shards(broker, app, start, journal):
    for number in range(20):
        publish(app, "b.sleep", [f"b{number}"], 0.0, tenant=f"tenant {number}")
    worker = start(queues="celery.batch")
    journal.wait_finished(*labels("b", 20), timeout=60)
    report = ask(app, worker.hostname)
    assert report["kinds"]["batch"]["queues"] == ["celery.batch"]
