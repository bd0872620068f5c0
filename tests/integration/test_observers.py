"""What users' own observers and the log are told by real workers, and what nobody is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from time import monotonic

import pytest
import redis as redis_client

from celery_fair.observe.cluster import Cluster
from celery_fair.observe.listening import Listener
from tests.apps import watched
from tests.brokers.process import free_port
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask
from tests.integration.test_metrics import scrape
from tests.nodes.answering import until_answered
from tests.nodes.worker import ROOT

APP = "tests.apps.watched"
LOG = {"CELERY_FAIR__LOG_TASKS": "1"}
SECRET = "s3cret-W0rd"


@pytest.fixture
def app(broker):
    app = watched.make_app(broker)
    yield app
    app.close()


@pytest.fixture
def told(journal):
    """``told("finished")``: what the hook of that name was told, by task id."""

    def read(hook):
        entries = [e for e in journal.entries() if e.event == f"observed.{hook}"]
        return {entry.label: entry.more for entry in entries}

    return read


def lines(worker, event):
    """The lines of JSON in a worker's log."""
    found = re.findall(r"^\[.*?\] (\{\"event\":.*\})$", worker.log_text(), re.MULTILINE)
    return [line for line in map(json.loads, found) if line["event"] == event]


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
@pytest.mark.brokers("redis")
def test_an_observer_sees_a_task_from_arrival_to_its_end(pool, start_worker, app, journal, told):
    worker = start_worker(APP, pool=pool, concurrency=2, env=LOG)
    result = app.tasks["b.sleep"].delay("one", 0.05)
    wait_until(lambda: result.id in told("finished"), "the last hook")
    done = told("finished")[result.id]
    assert (done["kind"], done["name"], done["queue"]) == ("batch", "b.sleep", "celery.batch")
    assert (done["mode"], done["outcome"]) == ("open", "succeeded")
    (ran,) = journal.entries("start")
    assert done["enqueued_at"] <= done["pulled_at"] <= done["started_at"] < done["finished_at"]
    assert done["started_at"] <= ran.at <= done["finished_at"]
    assert told("held")[result.id]["started_at"] is None
    assert told("dispatched")[result.id]["outcome"] is None
    (line,) = wait_until(lambda: lines(worker, "task"), "it in the log, which is told after it")
    assert line == {
        "event": "task",
        **{name: done[name] for name in ("kind", "queue", "mode", "outcome")},
        "task": "b.sleep",
        "id": result.id,
        **{name: pytest.approx(done[name], abs=1e-3) for name in done if name.endswith("_at")},
        "wait_seconds": pytest.approx(done["wait"], abs=1e-3),
        "run_seconds": pytest.approx(done["finished_at"] - done["started_at"], abs=1e-3),
        "worker": worker.hostname,
    }


@pytest.mark.brokers("redis")
def test_one_that_fails_is_counted_and_harms_nobody(start_worker, app, journal, told):
    worker = start_worker(APP, pool="threads")
    results = [app.tasks["b.sleep"].delay(f"b{number}") for number in range(20)]
    wait_until(lambda: len(told("finished")) == 20, "the other observer to see all of them")
    assert set(told("held")) == {result.id for result in results}
    assert ask(app, worker.hostname)["observer_failures"] == 40
    text = worker.log_text()
    assert text.count("Failing.held of an observer failed") == 1
    assert text.count("Failing.finished of an observer failed") == 1


@pytest.mark.brokers("redis")
def test_drops_and_changes_of_the_gate_are_told_with_their_reasons(
    start_worker, app, journal, told, tmp_path
):
    env = {**LOG, "CELERY_FAIR__PROTECT_WAIT_SECONDS": "0.1", "CELERY_FAIR__RESERVE": "0"}
    worker = start_worker(APP, pool="threads", concurrency=1, env=env)
    app.tasks["b.until"].delay("long", str(tmp_path / "free"))
    journal.wait_started("long")
    revoked = app.tasks["b.sleep"].delay("revoked")
    app.control.revoke(revoked.id)
    wait_until(lambda: revoked.id in ask(app, worker.hostname, "revoked"), "it to be known")
    expired = app.tasks["b.sleep"].apply_async(("expired",), expires=0.01)
    app.tasks["i.sleep"].delay("waits")
    wait_until(lambda: "protected" in told("mode_changed"), "the gate to shut")
    (tmp_path / "free").touch()
    journal.wait_finished("waits")
    wait_until(lambda: len(told("dropped")) == 2, "both to be dropped")
    dropped = told("dropped")
    assert (dropped[revoked.id]["outcome"], dropped[expired.id]["outcome"]) == (
        "revoked",
        "expired",
    )
    assert dropped[revoked.id]["started_at"] is None
    wait_until(lambda: "open" in told("mode_changed"), "the gate to open again")
    change = told("mode_changed")["protected"]
    assert (change["cause"], change["reason"][:28]) == ("wait", "an interactive task has wait")
    gate = wait_until(lambda: len(found := lines(worker, "gate")) > 1 and found, "both in the log")
    assert [line["mode"] for line in gate[:2]] == ["protected", "open"]
    assert gate[0]["reason"] == change["reason"]
    wait_until(
        lambda: {line["outcome"] for line in lines(worker, "task")} >= {"revoked", "expired"},
        "both in the log",
    )


@pytest.mark.brokers("redis", "rabbitmq")
def test_facts_reach_whoever_listens_on_every_broker(start_worker, app, journal):
    worker = start_worker(APP, pool="threads")
    cluster = Cluster()
    listener = Listener(app, cluster)
    listener.start()
    try:
        app.tasks["b.sleep"].delay("one")
        journal.wait_finished("one")

        def heard():
            found = cluster.alive(monotonic()).get(worker.hostname)
            return found if found and found.tasks else None

        found = wait_until(heard, "a watched worker to speak, within a second or two")
        assert found.every_seconds == 1.0
        assert found.facts["kinds"]["batch"]["finished"] == {"succeeded": 1}
        assert found.tasks["batch", "b.sleep"]["outcomes"] == {"succeeded": 1}
        assert listener.error is None
        worker.stop()
        wait_until(lambda: not cluster.workers, "it to say goodbye")
    finally:
        listener.stop()
        listener.join(5)
        assert not listener.is_alive()


@pytest.mark.brokers("redis")
def test_no_secret_shows_anywhere(start_worker, start_flower, app, told, broker):
    """In an argument, a result, an error, a header, an id of a request, a tenant, a shadow."""
    port = free_port()
    worker = start_worker(APP, pool="prefork", env={**LOG, "CELERY_FAIR__METRICS_PORT": str(port)})
    flower = start_flower()
    cluster, heard = Cluster(), []
    listener = Listener(app, cluster, lambda: heard.append(repr(cluster.workers)))
    listener.start()
    options = {
        "request_id": SECRET,
        "tenant": SECRET,
        "headers": {"x-token": SECRET},
        "shadow": SECRET,
    }
    try:
        for name in ("b.secret", "i.secret"):
            app.tasks[name].apply_async((SECRET,), {"also": SECRET}, **options)
        app.tasks["b.rejecting"].apply_async((SECRET,), **options)
        dropped = app.tasks["b.secret"].apply_async(
            (SECRET,), {"also": SECRET}, expires=-1, **options
        )
        wait_until(lambda: len(told("finished")) == 3, "all to end")
        wait_until(lambda: dropped.id in told("dropped"), "the expired one to be dropped")
        wait_until(lambda: any("b.rejecting" in one for one in heard), "their facts")
        status = ask(app, worker.hostname)
        page = wait_until(lambda: _shown_by_flower(flower, "b.rejecting"), "Flower to hear them")
    finally:
        listener.stop()
        listener.join(5)
    shown = {
        "page": page,
        "metrics": scrape(port),
        "top": _shown_by("top", "--once", broker=broker),
        "status": _shown_by("status", broker=broker),
        "facts": json.dumps(status),
        "events": "".join(heard),
        "log": json.dumps(lines(worker, "task") + lines(worker, "gate")),
        "keys": repr(_our_keys(broker)),
        "observers": json.dumps(told("finished")) + json.dumps(told("dropped")),
    }
    for place in ("log", "metrics", "page"):
        assert "b.secret" in shown[place], place  # it is there to be read
    assert worker.hostname in shown["top"]
    assert [place for place, text in shown.items() if SECRET in text] == []


def _shown_by_flower(flower, task):
    """Our page's figures, and the metrics after Flower's own; once the task is among them."""
    metrics = flower.get("/metrics").text.partition("celery_fair_")[2]
    return flower.get("/fair/data").text + metrics if task in metrics else None


def _shown_by(*command, broker):
    done = until_answered(
        lambda: subprocess.run(
            [sys.executable, "-m", "celery", "-A", APP, "fair", *command],
            cwd=ROOT,
            env={**os.environ, **broker.environ(), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    )
    done.check_returncode()
    return done.stdout + done.stderr


def _our_keys(broker):
    """All that celery-fair itself keeps in Redis."""
    with redis_client.Redis.from_url(broker.url) as client:
        names = [name for name in client.scan_iter() if b"celery_fair" in name]
        assert names
        return {name: client.hgetall(name) for name in names if client.type(name) == b"hash"}
