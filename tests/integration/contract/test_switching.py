"""``mode`` changes while a worker runs: what it does then, and after a reconnect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, change_mode, cut_workers, labels, publish
from tests.nodes.worker import ROOT

SLOTS = 2
AHEAD = 12
FAIR = {"queues": {"batch": ["celery.batch", "imports"]}, "reserve": 1}


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker, fair=FAIR)
    yield app
    app.close()


@pytest.fixture
def start(start_worker):
    def start(mode, conf=None, **options):
        conf = {"fair": FAIR, **(conf or {})}
        env = {"CELERY_CONF": json.dumps(conf), "CELERY_FAIR__MODE": mode}
        return start_worker("tests.apps.mixed", env=env, concurrency=SLOTS, **options)

    return start


@pytest.fixture
def fair_mode(broker):
    """``fair_mode("observe")``: what the command of that name says; by then it is so."""

    def run(mode):
        command = [sys.executable, "-m", "celery", "-A", "tests.apps.mixed", "fair", "mode", mode]
        env = {**os.environ, **broker.environ(), "CELERY_CONF": json.dumps({"fair": FAIR})}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.mark.brokers("redis", "rabbitmq")
def test_an_observing_worker_enforces_as_soon_as_it_is_told(start, app, journal):
    """What it has prefetched is Celery's still; of all that comes after, batch gives way."""
    worker = start("observe", conf={"worker_prefetch_multiplier": AHEAD}, pool="prefork")
    publish(app, "b.sleep", labels("b", 60), 0.1)
    journal.wait_started("b1")
    change_mode(app, worker.hostname, "enforce")
    passed = worker.log_text().count(" received")  # 2 × 12, and as many as have run by then
    journal.wait_count(passed, "start")
    publish(app, "i.sleep", labels("i", 3))
    begun = len(journal.started())
    journal.wait_count(63, timeout=40)
    order = journal.started()
    # Some of batch may begin until the worker has them; Celery would have run all it prefetches.
    assert order.index("i2") <= begun + 3 + SLOTS * AHEAD // 2, order
    assert ask(app, worker.hostname)["slots"]["audited"] == 0


@pytest.mark.brokers("redis", "rabbitmq")
def test_an_enforcing_worker_is_plain_celery_as_soon_as_it_is_told(start, app, journal, fair_mode):
    worker = start("enforce")
    publish(app, "b.sleep", labels("b", 20), 0.15)
    journal.wait_started("b1")
    said = fair_mode("observe")
    assert f"{worker.hostname}  enforce → observe" in said
    # With a reserve of one slot of two there would never be two at once.
    publish(app, "b.sleep", labels("c", 20), 0.15)
    wait_until(lambda: len(journal.running()) == SLOTS, "batch in every slot", timeout=20)
    publish(app, "i.sleep", ["i0"])
    journal.wait_count(41, timeout=40)
    assert Counter(journal.started()).most_common(1)[0][1] == 1
    stats = ask(app, worker.hostname, "stats")
    assert stats["prefetch_count"] == SLOTS * 4  # Celery's own again


@pytest.mark.brokers("redis")
def test_a_mode_outlives_a_lost_connection_and_knows_the_queues_of_the_other(
    shared_redis, broker, start, app, journal
):
    worker = start("enforce", queues="celery,celery.batch")
    change_mode(app, worker.hostname, "observe")
    app.control.add_consumer("imports", destination=[worker.hostname], reply=True, timeout=5)
    change_mode(app, worker.hostname, "enforce")
    publish(app, "b.sleep", ["added"], queue="imports")
    journal.wait_finished("added")
    assert "imports" in ask(app, worker.hostname)["kinds"]["batch"]["queues"]
    app.control.cancel_consumer("celery.batch", destination=[worker.hostname], reply=True)
    change_mode(app, worker.hostname, "observe")
    cut_workers(shared_redis, broker)
    wait_until(lambda: "Connection to broker lost" in worker.log_text(), "it to notice", timeout=20)
    publish(app, "b.sleep", ["cancelled"])
    publish(app, "b.sleep", ["imported"], queue="imports")
    journal.wait_finished("imported", timeout=30)
    assert ask(app, worker.hostname)["mode"] == "observe"
    assert "cancelled" not in journal.started()


@pytest.mark.brokers("redis", "rabbitmq")
def test_changing_again_and_again_loses_nothing(start, app, journal):
    """Late acks have to reach the channel that their message came by."""
    worker = start("observe", pool="prefork")
    publish(app, "b.late", labels("b", 60), 0.05)
    publish(app, "i.late", labels("i", 60), 0.05)
    for turn in range(10):
        journal.wait_count(10 * (turn + 1), timeout=40)
        change_mode(app, worker.hostname, ("enforce", "observe")[turn % 2])
    journal.wait_count(120, timeout=40)
    started = Counter(journal.started())
    assert len(started) == 120
    assert set(started.values()) == {1}
    rest = wait_until(lambda: _at_rest(app, worker), "no slot to be in use")
    assert rest["slots"]["audited"] == 0


def _at_rest(app, worker):
    report = ask(app, worker.hostname)
    return None if any(kind["running"] for kind in report["kinds"].values()) else report
