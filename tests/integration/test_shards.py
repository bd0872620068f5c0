"""A kind spread over shards: who consumes them, what is lost as their number changes, turns."""

from __future__ import annotations

import pytest

from celery_fair import Fair
from celery_fair.sharding.names import shards_of
from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish, runs
from tests.integration.test_front import passed

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


@pytest.mark.brokers("redis")
def test_whoever_consumes_a_queue_consumes_its_shards(broker, app, start, journal):
    for number in range(20):
        publish(app, "b.sleep", [f"b{number}"], 0.0, tenant=f"tenant {number}")
    worker = start(queues="celery.batch")
    journal.wait_finished(*labels("b", 20), timeout=60)
    report = ask(app, worker.hostname)
    assert report["kinds"]["batch"]["queues"] == ["celery.batch"]


@pytest.mark.brokers("redis", "rabbitmq")
def test_nothing_is_lost_as_the_number_grows_and_shrinks(broker, app, start, journal):
    """Publishers are ahead of the order in the docs: what they send waits until workers follow."""
    few = {"CELERY_FAIR__BATCH_SHARDS": "2"}
    tenants = [f"tenant {number}" for number in range(12)]

    def publish_some(prefix):
        for number, tenant in enumerate(tenants):
            publish(app, "b.sleep", [f"{prefix}{number}"], 0.0, tenant=tenant)
        return labels(prefix, len(tenants))

    worker = start(env=few)
    grown = publish_some("grown")  # to eight shards, of which it knows two
    wait_until(lambda: journal.labels("finish"), "those of the shards that are known")
    assert worker.stop(30) == 0
    left = set(grown) - set(journal.labels("finish"))
    assert left
    worker = start()
    journal.wait_finished(*grown)
    shrunk = publish_some("shrunk")
    journal.wait_finished(*shrunk)
    assert worker.stop(30) == 0
    start(env=few)
    alone = labels("alone", 1)
    publish(app, "b.sleep", alone)
    journal.wait_finished(*alone)
    assert sorted(journal.labels("finish")) == sorted([*grown, *shrunk, *alone])


@pytest.mark.brokers("redis")
def test_a_queue_that_is_paused_takes_its_shards_with_it(broker, app, start, journal):
    worker = start()

    def consumed():
        found = app.control.inspect([worker.hostname], timeout=5).active_queues() or {}
        return {queue["name"] for queue in found.get(worker.hostname, ())}

    every = {"celery.batch", *shards_of("celery.batch", SHARDS)}
    wait_until(lambda: consumed() >= every, "all shards to be consumed")
    app.control.cancel_consumer("celery.batch", destination=[worker.hostname])
    wait_until(lambda: not consumed() & every, "none of them to be")
    publish(app, "b.sleep", ["later"], 0.0, tenant="acme")
    publish(app, "i.sleep", ["now"])
    journal.wait_finished("now")
    assert journal.labels() == ["now"]
    app.control.add_consumer("celery.batch", destination=[worker.hostname])
    journal.wait_finished("later")
    assert consumed() >= every


@pytest.mark.brokers("redis")
def test_an_interactive_retry_goes_to_the_front_of_the_queue(broker, app, start, journal):
    app.tasks["i.retrying"].apply_async(("again",), tenant="acme")
    publish(app, "i.sleep", labels("i", 60), 0.02, tenant="acme")
    start()
    journal.wait_finished("again", *labels("i", 60))
    assert passed(journal) <= 24


FLOOD, TENANTS, EACH = 400, 10, 5


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_flood_of_one_tenant_does_not_stand_before_the_others(broker, app, start, journal):
    others_are_not_behind_a_flood("b.sleep", app, start, journal)


@pytest.mark.brokers("redis")
def test_nor_does_a_flood_of_interactive_tasks(broker, app, start, journal):
    others_are_not_behind_a_flood("i.sleep", app, start, journal)


def others_are_not_behind_a_flood(task, app, start, journal):
    """Twice what they would take alone: before the last of theirs, as many of the flood's."""
    each = {n: [f"other-{n}-{number}" for number in range(EACH)] for n in range(TENANTS)}
    others = [label for turn in zip(*each.values(), strict=True) for label in turn]
    publish(app, task, labels("flood", FLOOD), 0.01, tenant="flood")
    for label in others:
        publish(app, task, [label], 0.01, tenant=label.rpartition("-")[0])
    start()
    journal.wait_finished(*others, timeout=60)
    began = runs(journal.entries())
    last = max(place for place, run in enumerate(began) if run.label in others)
    floods = [run for run in began[:last] if run.label.startswith("flood")]
    # Turns are in slot-seconds: where one of the others stood still, all have as long as that.
    slowest = max(sum(run.seconds for run in began if run.label in of) for of in each.values())
    assert len(floods) <= len(others) or sum(run.seconds for run in floods) <= 2 * slowest
