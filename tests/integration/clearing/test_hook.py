"""The hook before batch tasks: its four answers, and what becomes of a task it says nothing of."""

from __future__ import annotations

import json

import pytest

from celery_fair import TaskRefused
from tests.apps import hooked
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask

SETTINGS = {"CELERY_FAIR__RESERVE": "0"}
ELSEWHERE = "celery.elsewhere"


@pytest.fixture
def app(broker):
    app = hooked.make_app(broker)
    yield app
    consumer = app.backend.result_consumer
    if getattr(consumer, "_consumer", consumer) is not None:  # rpc's has none without a result
        consumer.stop()
    if broker.name == "redis":
        app.backend.client.connection_pool.disconnect()
    app.close()


@pytest.fixture
def start(start_worker):
    def start(pool="threads", slots=2, env=None, **options):
        settings = {**SETTINGS, **(env or {})}
        return start_worker(
            "tests.apps.hooked", pool=pool, concurrency=slots, env=settings, **options
        )

    return start


def call(app, label, name="b.told", **options):
    return app.tasks[name].apply_async((label,), **options)


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("pool", ["threads"])
def test_it_admits_delays_reroutes_and_refuses(broker, app, start, journal, pool):
    worker = start(pool)
    refused = call(app, "no:refuse:not today")
    call(app, "later:delay:0.5")
    moved = call(app, f"moved:reroute:{ELSEWHERE}")
    call(app, "yes")
    call(app, "unasked", name="i.told")
    with pytest.raises(TaskRefused, match="not run: before_batch has refused this task: not today"):
        refused.get(timeout=20)
    journal.wait_finished("yes", "unasked", "later:delay:0.5")
    asked = [entry.label for entry in journal.entries("asked")]
    assert asked.count("later") == 2
    assert "unasked" not in asked
    wait_until(lambda: ask(app, worker.hostname, "reserved") == [], "nothing to be left here")
    other = start(pool, queues=ELSEWHERE, hostname="w2@test")
    journal.wait_finished(f"moved:reroute:{ELSEWHERE}")
    assert moved.get(timeout=20) == f"moved:reroute:{ELSEWHERE}"
    assert other.running
    ends = {entry.label: entry.at for entry in journal.entries("finish")}
    begun = next(entry.at for entry in journal.entries("asked") if entry.label == "later")
    assert ends["later:delay:0.5"] - begun >= 0.5
    assert json.dumps(ask(app, worker.hostname))


@pytest.mark.brokers("redis")
@pytest.mark.parametrize("what", ["admit", "refuse"])
def test_one_that_fails_or_hangs_holds_up_nobody(broker, app, start, journal, what):
    settings = {"CELERY_FAIR__BEFORE_BATCH_SECONDS": "0.3"}
    worker = start(env={**settings, "CELERY_FAIR__BEFORE_BATCH_ON_ERROR": what})
    labels = ["a:fail:oh", "b:nothing", *(f"h{number}:hang:20" for number in range(6))]
    results = {label: call(app, label) for label in labels}
    call(app, "person", name="i.told")
    journal.wait_finished("person")
    if what == "admit":
        journal.wait_finished(*labels)
    else:
        for label in labels:
            with pytest.raises(TaskRefused, match=r"before_batch: (it raised|expected|no answer)"):
                results[label].get(timeout=30)
        assert journal.started() == ["person"]
    hook = ask(app, worker.hostname)["clearing"]["hook"]
    assert hook["answers"]["failed"] == len(labels)
    assert hook["stuck"] == 6
