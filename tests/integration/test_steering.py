"""Steering running workers: pauses, settings and drains, and what survives what."""

from __future__ import annotations

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until

APP = "tests.apps.mixed"
QUICK = {"acks_late": True}


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def control(app):
    """``control("fair_pause", kind="batch")``: what each worker answers."""

    def ask(command, destination=None, **arguments):
        replies = app.control.broadcast(
            command, arguments=arguments, destination=destination, reply=True, timeout=3.0,
            limit=1 if destination is None else len(destination),
        )  # fmt: skip
        return {node: reply for answer in replies for node, reply in answer.items()}

    return ask


@pytest.fixture
def facts(control):
    return lambda node="w1@test": control("fair_status", [node])[node]


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_paused_batch_waits_and_is_lost_by_no_crash(
    start_worker, app, journal, control, facts, pool
):
    worker = start_worker(APP, pool=pool, concurrency=2)
    assert control("fair_pause", kind="batch") == {"w1@test": {"ok": "batch running → paused"}}
    for number in range(8):
        app.tasks["b.late"].delay(f"b{number}")
    for number in range(3):
        app.tasks["i.sleep"].delay(f"i{number}")
    journal.wait_finished("i0", "i1", "i2")
    batch = wait_until(
        lambda: (found := facts()["kinds"]["batch"])["backlog"] == 8 and found,
        "all of batch in the backlog",
    )
    assert batch["held"] == batch["running"] == 0
    worker.kill()
    worker.start()
    control("fair_pause", kind="batch")
    app.tasks["i.sleep"].delay("i3")
    journal.wait_finished("i3")
    control("fair_resume", kind="batch")
    journal.wait_finished(*(f"b{number}" for number in range(8)), timeout=20)
