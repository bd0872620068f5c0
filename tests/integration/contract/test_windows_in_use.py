"""What waits elsewhere than in a queue: ETAs, rate limits, priorities; and a pool that grows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish

SLOTS = 2


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


def _ended(entries):
    """Celery takes a child for idle until it has accepted its job, and may end it to shrink."""
    return sum(
        entry.event == "finish" or "SystemExit" in str(entry.more.get("error")) for entry in entries
    )


def _wait_status(app, worker, fact, timeout=30):
    def holds():
        status = ask(app, worker.hostname)
        return status if fact(status) else None

    return wait_until(holds, lambda: f"a status: {ask(app, worker.hostname)}", timeout=timeout)


@pytest.mark.parametrize("name", ["redis", "rabbitmq", "rabbitmq-per-consumer"])
def test_tasks_with_an_eta_do_not_stop_their_lane(name, request, start_worker, journal):
    """Thirty of them, and ten of the same kind for now; then all are run in their time."""
    broker, module = _broker_and_module(name, request)
    app = mixed.make_app(broker)
    worker = start_worker(module, broker=broker, concurrency=SLOTS)
    publish(app, "b.sleep", labels("eta", 30), countdown=6)
    _wait_status(app, worker, lambda s: s["kinds"]["batch"]["scheduled"] == 30)
    publish(app, "b.sleep", labels("now", 10))
    publish(app, "i.sleep", labels("quick", 5))
    journal.wait_finished(*labels("now", 10), *labels("quick", 5), timeout=30)
    journal.wait_finished(*labels("eta", 30), timeout=40)
    starts = journal.started()
    assert len(starts) == len(set(starts)) == 45
    kinds = _wait_status(app, worker, lambda s: s["kinds"]["batch"]["backlog"] == 0)["kinds"]
    app.close()
    assert kinds["batch"]["scheduled"] == kinds["batch"]["held"] == 0


def _broker_and_module(name, request):
    from tests.brokers.broker import Broker

    if name == "redis":
        url = request.getfixturevalue("redis_url")
        return Broker(name, url, url), "tests.apps.mixed"
    broker = Broker(name, request.getfixturevalue("rabbitmq_url"), "rpc://")
    return broker, "tests.apps.mixed" if name == "rabbitmq" else "tests.apps.per_consumer"


def test_tasks_with_an_eta_on_quorum_queues(request, start_worker, journal):
    """There Celery delays them in the broker, under other routing keys."""
    from tests.brokers.broker import Broker

    broker = Broker("quorum", request.getfixturevalue("rabbitmq_url"), "rpc://")
    conf = {"task_default_queue_type": "quorum", "task_create_missing_queue_type": "quorum"}
    app = mixed.make_app(broker, **conf)
    worker = start_worker(
        "tests.apps.mixed",
        broker=broker,
        concurrency=SLOTS,
        env={"CELERY_CONF": json.dumps(conf)},
        timeout=60,
    )
    publish(app, "b.sleep", labels("eta", 5), countdown=2)
    publish(app, "i.sleep", labels("quick", 5))
    journal.wait_finished(*labels("eta", 5), *labels("quick", 5), timeout=30)
    dispatched = ask(app, worker.hostname)["kinds"]["batch"]["dispatched"]
    app.close()
    assert dispatched == 5


@pytest.mark.brokers("redis", "rabbitmq")
def test_rate_limited_batch_does_not_stop_interactive_and_is_counted(
    broker, start_worker, app, journal
):
    """J1: six a minute, so one runs and the others wait in Celery's bucket, or at the broker."""
    worker = start_worker("tests.apps.mixed", concurrency=4)
    publish(app, "b.limited", labels("limited", 40))
    journal.wait_started("limited0")
    publish(app, "i.sleep", labels("quick", 10))
    journal.wait_finished(*labels("quick", 10), timeout=20)

    def seen(status):
        batch = status["kinds"]["batch"]
        return batch["rate_limited"] and abs((batch["backlog"] or 0) - 39) <= 2

    status = _wait_status(app, worker, seen)
    # No more than Celery would prefetch, whatever batch is owed meanwhile; and on RabbitMQ what a
    # window may deliver beyond its room.
    most = 4 * 4 * (2 if broker.name == "rabbitmq" else 1)
    assert 1 <= status["kinds"]["batch"]["rate_limited"] <= most


def test_the_backlog_is_exact_with_priorities_a_prefix_and_a_separator(
    broker, start_worker, journal
):
    """N2: three messages of each of four priorities, in keys that a bare LLEN does not read."""
    options = {"priority_steps": [0, 3, 6, 9], "sep": ":", "global_keyprefix": "x:"}
    broker = replace(broker, transport_options=options)
    app = mixed.make_app(broker)
    worker = start_worker(
        "tests.apps.mixed",
        broker=broker,
        pool="threads",
        concurrency=1,
        env={"CELERY_FAIR__LOOKAHEAD_SECONDS": "0"},
    )
    publish(app, "b.sleep", ["busy"], 60)
    journal.wait_started("busy")
    for priority in (0, 3, 6, 9):
        publish(app, "b.sleep", labels(f"p{priority}-", 3), priority=priority)
    status = _wait_status(app, worker, lambda s: s["kinds"]["batch"]["backlog"] == 12)
    app.close()
    held = status["kinds"]["batch"]["held"]
    assert status["kinds"]["batch"]["ready"] == {"celery.batch": 12 - held}


@pytest.mark.timeout(600)
@pytest.mark.brokers("redis", "rabbitmq")
def test_autoscale_grows_to_what_is_held_and_shrinks_again(
    start_worker, app, journal, tmp_path, full
):
    """I1: Celery grows the pool by what is reserved, so lanes hold more than there are slots."""
    worker = start_worker(
        "tests.apps.mixed",
        pool="prefork",
        args=["--autoscale=8,2"],
        env={"AUTOSCALE_KEEPALIVE": "1", "CELERY_FAIR__RESERVE": "1"},
    )
    turns = 20 if full else 2
    for turn in range(turns):
        grown = tmp_path / f"grown {turn}"
        publish(app, "b.late_until", labels(f"b{turn}-", 15), str(grown))
        publish(app, "i.late_until", labels(f"i{turn}-", 5), str(grown))
        _wait_status(app, worker, lambda s: s["slots"]["total"] == 8)
        grown.touch()
        journal.wait(lambda entries, turn=turn: _ended(entries) == 20 * (turn + 1), timeout=40)
        status = _wait_status(app, worker, lambda s: s["slots"]["total"] == 2, timeout=40)
        assert [kind["running"] for kind in status["kinds"].values()] == [0, 0]
    assert status["slots"]["audited"] == 0
    assert len(journal.started()) == len(set(journal.started())) == 20 * turns
