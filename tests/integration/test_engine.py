"""A worker whose engine queues: batch gives way, interactive does not, and it is all over again."""

from __future__ import annotations

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish
from tests.unit.engine.server import metrics_server


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def engine():
    with metrics_server() as page:
        page.vllm(waiting=0.0)
        yield page


@pytest.mark.brokers("redis")
def test_the_gate_shuts_while_the_engine_queues_and_opens_again(start_worker, app, journal, engine):
    env = {
        "ENGINE_URL": engine.url,
        "CELERY_FAIR__LOAD_PROBE": "tests.apps.engine.probe",
        "CELERY_FAIR__LOAD_PROBE_SECONDS": "0.1",
        "CELERY_FAIR__RESERVE": "0",
        "CELERY_FAIR__BATCH_SHARE": "0.5",
        "CELERY_FAIR__ENGINE_BATCH_SHARE": "0.25",
    }
    worker = start_worker("tests.apps.mixed", pool="threads", concurrency=2, env=env)

    def facts():
        return ask(app, worker.hostname)

    wait_until(lambda: facts()["engine"]["pressure"] == 0.125, "a first answer of the probe")
    engine.vllm(waiting=79.0)
    wait_until(lambda: facts()["gate"]["cause"] == "engine", "the gate to shut")
    publish(app, "b.sleep", labels("b", 40), 0.2)
    publish(app, "i.sleep", labels("i", 3))
    journal.wait_started("i0", "i1", "i2")
    found = facts()
    assert found["gate"]["mode"] == "protected"
    assert found["engine"]["queueing"]
    assert found["engine"]["detail"] == "waiting requests: 80"
    assert found["share"]["guaranteed"] == pytest.approx(0.25)
    journal.wait_started("b0")  # two seconds later: half a slot, for a task not known to be short
    assert facts()["kinds"]["batch"]["dispatched"] < 10

    engine.status = 500
    wait_until(lambda: facts()["engine"]["unknown"], "the last answer to be too old")
    wait_until(lambda: facts()["gate"]["mode"] == "open", "the gate to open")
    found = facts()
    assert "answered 500" in found["engine"]["failing"]
    assert worker.log_text().count("the load probe fails") == 1
    journal.wait_count(43)
