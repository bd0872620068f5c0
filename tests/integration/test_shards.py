"""A kind spread over shards: who consumes them, what is lost as their number changes, turns."""

from __future__ import annotations

import pytest

from celery_fair import Fair
from tests.apps import mixed
from tests.integration.contract.site import ask, labels, publish

SHARDS = 8
SPREAD = {
    "CELERY_FAIR__BATCH_SHARDS": str(SHARDS),
    "CELERY_FAIR__INTERACTIVE_SHARDS": str(SHARDS),
}
SETTINGS = {"CELERY_FAIR__RESERVE": "0", **SPREAD}


@pytest.fixture
def app(broker, monkeypatch):
    for name, value in SPREAD.items():
        monkeypatch.setenv(name, value)
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


FLOOD, TENANTS, EACH = 400, 10, 5


@pytest.mark.parametrize("prefix", ["b", "i"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_a_flood_of_one_tenant_does_not_stand_before_the_others(
    broker, app, start, journal, prefix
):
    """Twice what they would take alone: before the last of theirs, as many of the flood's."""
    others = [f"other-{tenant}-{number}" for number in range(EACH) for tenant in range(TENANTS)]
    publish(app, f"{prefix}.sleep", labels("flood", FLOOD), 0.01, tenant="flood")
    for label in others:
        publish(app, f"{prefix}.sleep", [label], 0.01, tenant=label.rpartition("-")[0])
    start()
    journal.wait_finished(*others, timeout=60)
    started = journal.labels()
    last = max(map(started.index, others))
    assert last + 1 - len(others) <= len(others)
