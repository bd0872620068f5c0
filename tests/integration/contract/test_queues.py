"""Which queues a worker serves, and which lane they are in."""

from __future__ import annotations

import json

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, cut_workers, labels, most_at_once, publish, runs

SLOTS = 3


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


def _wait_idle(app, worker):
    """Wait until nothing runs or waits, and return the status of that moment."""

    def idle():
        status = ask(app, worker.hostname)
        kinds = status["kinds"].values()
        return status if all(k["running"] == k["backlog"] == 0 for k in kinds) else None

    return wait_until(idle, lambda: f"idle: {ask(app, worker.hostname)}", timeout=30)


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_a_worker_of_one_kind_gives_it_every_slot(pool, start_worker, app, journal):
    conf = {"CELERY_CONF": json.dumps({"broker_heartbeat": 0})}
    worker = start_worker(
        "tests.apps.mixed", pool=pool, concurrency=SLOTS, queues="celery.batch", env=conf
    )
    publish(app, "i.sleep", ["nobody's"])
    publish(app, "b.sleep", labels("b", 4 * SLOTS), 0.3)
    journal.wait_finished(*labels("b", 4 * SLOTS), timeout=30)
    assert most_at_once(runs(journal.entries(), "b")) == SLOTS
    assert "nobody's" not in journal.started()
    status = _wait_idle(app, worker)
    assert status["kinds"]["interactive"]["queues"] == []
    assert status["slots"]["reserve"] == 0
    assert status["gate"]["mode"] == "open"


@pytest.mark.parametrize(
    ("args", "queues", "ran"),
    [
        ((), "celery,celery.batch", {"i", "b"}),
        (("-X", "celery.batch"), None, {"i"}),
        (("-X", "celery"), None, {"b"}),
    ],
    ids=["both", "exclude-batch", "exclude-interactive"],
)
@pytest.mark.brokers("redis", "rabbitmq")
def test_selected_and_excluded_queues(args, queues, ran, start_worker, app, journal):
    worker = start_worker("tests.apps.mixed", queues=queues, args=args)
    publish(app, "i.sleep", ["i"])
    publish(app, "b.sleep", ["b"])
    journal.wait_finished(*ran)
    served = {kind: reply["queues"] for kind, reply in ask(app, worker.hostname)["kinds"].items()}
    assert served == {
        "interactive": ["celery"] if "i" in ran else [],
        "batch": ["celery.batch"] if "b" in ran else [],
    }
    left_out = {"interactive", "batch"} - {kind for kind, names in served.items() if names}
    for kind in ("interactive", "batch"):
        warned = f"this worker consumes no {kind} queue" in worker.log_text()
        assert warned == (kind in left_out)
    worker.stop()
    assert set(journal.started()) == ran


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_a_batch_queue_added_at_run_time_goes_to_the_batch_lane(
    pool, start_worker, broker, journal
):
    fair = {"queues": {"batch": ["celery.batch", "imports"]}}
    app = mixed.make_app(broker, fair=fair)
    env = {"CELERY_CONF": json.dumps({"fair": fair}), "CELERY_FAIR__RESERVE": "1"}
    worker = start_worker(
        "tests.apps.mixed", pool=pool, concurrency=SLOTS, queues="celery", env=env
    )
    assert ask(app, worker.hostname)["slots"]["reserve"] == 0
    app.control.add_consumer("imports", destination=[worker.hostname], reply=True, timeout=5)
    publish(app, "b.sleep", labels("added", 3 * SLOTS), 0.3, queue="imports")
    journal.wait_finished(*labels("added", 3 * SLOTS), timeout=30)
    # As batch it leaves the reserve free, which a worker of one kind does not have.
    assert most_at_once(runs(journal.entries(), "added")) == SLOTS - 1
    assert ask(app, worker.hostname)["kinds"]["batch"]["queues"] == ["imports"]

    app.control.cancel_consumer("imports", destination=[worker.hostname], reply=True, timeout=5)
    wait_until(  # it is done after it is answered, and its front goes a moment later
        lambda: ask(app, worker.hostname)["kinds"]["batch"]["queues"] == [], "no batch queue"
    )
    publish(app, "b.sleep", ["cancelled"], queue="imports")
    publish(app, "i.sleep", ["after"])
    journal.wait_finished("after")
    assert "cancelled" not in journal.started()
    app.close()


def test_a_queue_added_at_run_time_survives_a_lost_connection(
    start_worker, shared_redis, broker, journal
):
    fair = {"queues": {"batch": ["celery.batch", "imports"]}}
    app = mixed.make_app(broker, fair=fair)
    worker = start_worker(
        "tests.apps.mixed", env={"CELERY_CONF": json.dumps({"fair": fair})}, concurrency=SLOTS
    )
    app.control.add_consumer("imports", destination=[worker.hostname], reply=True, timeout=5)
    app.control.cancel_consumer("celery.batch", destination=[worker.hostname], reply=True)
    wait_until(  # both are done after they are answered
        lambda: ask(app, worker.hostname)["kinds"]["batch"]["queues"] == ["imports"], "imports"
    )
    cut_workers(shared_redis, broker)
    wait_until(
        lambda: "Connection to broker lost" in worker.log_text(), "the worker to notice", timeout=20
    )
    publish(app, "b.sleep", ["imported"], queue="imports")
    publish(app, "i.sleep", ["asked"])
    journal.wait_finished("imported", "asked", timeout=30)
    queues = ask(app, worker.hostname)["kinds"]["batch"]["queues"]
    app.close()
    assert queues == ["imports"]


@pytest.mark.brokers("redis", "rabbitmq")
def test_tasks_that_nobody_classified_have_the_default_kind(start_worker, broker, journal):
    fair = {"default_kind": "batch"}
    app = mixed.make_app(broker, fair=fair)
    worker = start_worker(
        "tests.apps.mixed",
        concurrency=SLOTS,
        env={"CELERY_CONF": json.dumps({"fair": fair}), "CELERY_FAIR__RESERVE": "1"},
    )
    publish(app, "sleeper", labels("u", 9), 0.2)
    journal.wait_finished(*labels("u", 9), timeout=30)
    assert most_at_once(runs(journal.entries(), "u")) == SLOTS - 1
    dispatched = ask(app, worker.hostname)["kinds"]["batch"]["dispatched"]
    app.close()
    assert dispatched == 9


@pytest.mark.brokers("redis", "rabbitmq")
def test_existing_queues_with_names_of_their_own_are_mapped(start_worker, broker, journal):
    fair = {"queues": {"interactive": ["web", "api"], "batch": ["reports", "imports"]}}
    app = mixed.make_app(broker, fair=fair)
    worker = start_worker(
        "tests.apps.mixed",
        concurrency=SLOTS,
        env={"CELERY_CONF": json.dumps({"fair": fair}), "CELERY_FAIR__RESERVE": "1"},
    )
    # An old producer's messages too: by queue, without our header.
    publish(app, "sleeper", labels("reports", 4), 0.3, queue="reports")
    publish(app, "b.sleep", labels("batch", 5), 0.3)
    publish(app, "sleeper", ["imported"], 0.3, queue="imports")
    publish(app, "sleeper", ["api"], 0.0, queue="api")
    journal.wait_finished(*labels("reports", 4), *labels("batch", 5), "imported", timeout=30)
    batch = [run for run in runs(journal.entries()) if run.label != "api"]
    assert most_at_once(batch) == SLOTS - 1
    status = _wait_idle(app, worker)
    app.close()
    assert status["kinds"]["batch"]["dispatched"] == 10
    # A worker without -Q goes on with Celery's default queue, which is nobody's but the default's.
    assert set(status["kinds"]["interactive"]["queues"]) == {"celery", "web", "api"}
    assert set(status["kinds"]["batch"]["queues"]) == {"reports", "imports"}
