"""A worker on a Celery or kombu where a name has moved: plain Celery, and it says why."""

from __future__ import annotations

import pytest

from celery_fair import Fair
from tests.apps import mixed
from tests.apps.mixed import BATCH_QUEUE
from tests.brokers.waiting import wait_until

LACKING = {
    "redis": "kombu.transport.virtual.base:QoS can_consume_max_estimate",
    "rabbitmq": "amqp.channel:Channel basic_reject",
}


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_a_worker_that_lacks_a_name_runs_as_plain_celery(pool, broker, start_worker, journal):
    where, name = LACKING[broker.name].split()
    worker = start_worker("tests.apps.lacking", pool=pool, env={"LACKING": f"{where} {name}"})
    app = mixed.make_app(broker)
    for kind in ("i", "b"):
        app.tasks[f"{kind}.sleep"].delay(kind)
        app.tasks[f"{kind}.late"].delay(f"late {kind}")
    journal.wait_finished("i", "b", "late i", "late b", timeout=30)
    assert Fair.of(app).queues["batch"] == (BATCH_QUEUE,)
    said = [line for line in worker.log_text().splitlines() if "celery-fair: " in line]
    assert len(said) == 1, said
    assert "WARNING" in said[0]
    assert f"{where} has no {name}" in said[0]
    wait_until(lambda: _status(app, worker) == NOT_ACTIVE, "a worker without lanes")
    app.close()


WHY = (
    "plain Celery, since its Celery or kombu lacks what celery-fair leans on, "
    "as its log says in full"
)
NOT_ACTIVE = [{"w1@test": {"error": WHY}}]


def _status(app, worker):
    return app.control.broadcast(
        "fair_status", reply=True, destination=[worker.hostname], limit=1, timeout=5
    )
