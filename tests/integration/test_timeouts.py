"""A task that has waited for too long is never run: it fails without a slot, and all hear of it."""

from __future__ import annotations

import json
import signal

import pytest
from celery import chord

from celery_fair import QueueTimeout
from tests.apps import timing
from tests.brokers.broker import Broker
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish

SLOTS = 2
SETTINGS = {"CELERY_FAIR__RESERVE": "0"}
OVERDUE = 0.001
"""Seconds that any message has waited by the time a worker has it."""


@pytest.fixture
def app(broker):
    app = timing.make_app(broker)
    yield app
    consumer = app.backend.result_consumer
    if getattr(consumer, "_consumer", consumer) is not None:  # rpc's has none without a result
        consumer.stop()
    if broker.name == "redis":
        app.backend.client.connection_pool.disconnect()  # `close` leaves it open, to the collector
    app.close()


@pytest.fixture
def start(start_worker):
    def start(pool="prefork", slots=SLOTS, env=None, conf=None, **options):
        if pool == "gevent":  # its loop takes ten messages a second where there are heartbeats
            conf = {**(conf or {}), "broker_heartbeat": 0}
        return start_worker(
            "tests.apps.timing",
            pool=pool,
            concurrency=slots,
            env={**SETTINGS, "CELERY_CONF": json.dumps(conf or {}), **(env or {})},
            **options,
        )

    return start


def _call(app, label, name="i.told", **options):
    return app.tasks[name].apply_async((label,), **options)


def _error(result, timeout=20.0):
    with pytest.raises(QueueTimeout) as caught:
        result.get(timeout=timeout)
    return caught.value


def _dropped(app, worker, kind="interactive"):
    return ask(app, worker.hostname)["kinds"][kind]["dropped"].get("timed_out", 0)


def _wait_dropped(app, worker, count):
    """Whoever waits for the result hears of it before the worker's loop takes note of it."""
    wait_until(lambda: _dropped(app, worker) == count, f"{count} to be dropped")


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_what_waited_for_too_long_fails_and_what_did_not_runs(broker, app, start, journal, pool):
    late = _call(app, "late", timeout_seconds=OVERDUE)
    worker = start(pool)
    error = _error(late)
    assert (error.kind, error.timeout_seconds) == ("interactive", OVERDUE)
    assert error.waited_seconds >= OVERDUE
    assert _call(app, "in time", timeout_seconds=60).get(timeout=20) == "in time"
    assert journal.started() == ["in time"]
    _wait_dropped(app, worker, 1)
    assert ask(app, worker.hostname, "reserved") == []


def test_everybody_learns_of_it(broker, app, start, journal):
    start()
    errbacks = [app.tasks[f"i.{how}_errback"].s() for how in ("called", "published")]
    late = _call(app, "late", timeout_seconds=OVERDUE, link_error=errbacks)
    _error(late)
    told = journal.wait(lambda entries: len(entries) >= 4, what="all that is told of a failure")
    assert {(entry.event, entry.label, entry.more.get("error")) for entry in told} == {
        ("on_failure", "late", "QueueTimeout"),
        ("task_failure", late.id, "QueueTimeout"),
        ("called_errback", late.id, "QueueTimeout"),
        ("published_errback", late.id, None),
    }
    assert late.status == "FAILURE"


def test_a_chord_learns_of_a_part_that_timed_out(broker, app, start, journal):
    start()
    told = app.tasks["i.told"]
    body = chord([told.s("a"), told.s("b").set(timeout_seconds=OVERDUE)])(told.si("body"))
    _error(body)
    assert "body" not in journal.started()


@pytest.mark.brokers("redis", "rabbitmq")
def test_it_happens_on_time_though_every_slot_is_taken(broker, app, start, journal):
    worker = start(env={"CELERY_FAIR__INTERACTIVE_TIMEOUT_SECONDS": "1"})
    publish(app, "i.sleep", labels("long", SLOTS), 30, timeout_seconds=60)
    journal.wait(lambda entries: len(entries) == SLOTS, what="both slots to be taken")
    results = [_call(app, label) for label in labels("waiting", 20)]
    errors = [_error(result, timeout=10) for result in results]
    assert max(error.waited_seconds for error in errors) < 8  # of the 30 that the slots are taken
    assert sorted(journal.started()) == labels("long", SLOTS)
    _wait_dropped(app, worker, 20)


@pytest.mark.brokers("redis", "rabbitmq")
def test_what_may_still_wait_is_not_kept_from_other_workers(broker, app, start, journal):
    """A worker that looks for overdue messages gives back what it finds in time."""
    env = {"CELERY_FAIR__INTERACTIVE_TIMEOUT_SECONDS": "60"}
    start(slots=1, env=env)
    publish(app, "i.sleep", ["long"], 30)
    journal.wait(lambda entries: len(entries) == 1, what="the slot to be taken")
    publish(app, "i.told", ["next"])
    start(slots=1, env=env)
    journal.wait(lambda entries: "next" in [e.label for e in entries], what="the other to run it")


def test_a_task_and_its_call_say_how_long(broker, app, start, journal, tmp_path):
    worker = start(env={"CELERY_FAIR__INTERACTIVE_TIMEOUT_SECONDS": "60"})
    publish(app, "i.until", labels("long", SLOTS), str(tmp_path / "free"))
    journal.wait(lambda entries: len(entries) == SLOTS, what="both slots to be taken")
    declared = _call(app, "declared", "i.hasty")
    called = _call(app, "called", "i.hasty", timeout_seconds=60)
    assert _error(declared).timeout_seconds == 0.5
    (tmp_path / "free").touch()
    assert called.get(timeout=20) == "called"
    _wait_dropped(app, worker, 1)


def test_a_retry_waits_anew(broker, app, start, journal):
    start()
    # Three attempts after a second each: late for the time that all have, far from it each.
    result = app.tasks["i.retrying"].apply_async(("r", 3, 1.0), timeout_seconds=2.9)
    result.get(timeout=20)
    assert journal.started() == ["r"] * 4


def test_observing_has_nothing_time_out(broker, app, start, journal):
    start(env={"CELERY_FAIR__MODE": "observe"})
    assert _call(app, "late", timeout_seconds=OVERDUE).get(timeout=20) == "late"


def test_what_expires_and_what_was_revoked_is_told_apart(broker, app, start, journal):
    expired = _call(app, "expired", expires=OVERDUE, timeout_seconds=OVERDUE)
    worker = start()
    wait_until(lambda: expired.status == "REVOKED", "Celery to drop what has expired")
    facts = ask(app, worker.hostname)["kinds"]["interactive"]
    assert facts["dropped"] == {"expired": 1}


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_kind_has_a_time_limit_and_a_call_another(broker, app, start, journal, pool):
    worker = start(pool, env={"CELERY_FAIR__BATCH_TIME_LIMIT": "0.5"})
    publish(app, "b.sleep", ["over"], 60)
    publish(app, "b.sleep", ["within"], 1.5, time_limit=30)
    publish(app, "i.sleep", ["interactive"], 1.5)
    journal.wait(lambda entries: sum(entry.event == "finish" for entry in entries) == 2, timeout=20)
    assert set(journal.finished()) == {"within", "interactive"}
    finished = wait_until(
        lambda: ask(app, worker.hostname)["kinds"]["batch"]["finished"].get("time_limit"),
        "the end by its limit in the facts",
    )
    assert finished == 1


def test_a_slow_result_backend_keeps_nobody_waiting(start_redis, start, journal):
    """Drops wait for it; tasks whose results nobody asks for run on."""
    server, backend = start_redis(), start_redis()
    worker = start("threads", broker=Broker("redis", server.url, backend.url))
    app = timing.make_app(Broker("redis", server.url, "disabled://"))  # it asks for no result
    _call(app, "first", ignore_result=True)
    journal.wait(lambda entries: "first" in [e.label for e in entries], what="a task to run")
    backend.send_signal(signal.SIGSTOP)
    try:
        publish(app, "i.told", labels("late", 5), timeout_seconds=OVERDUE)
        publish(app, "i.told", labels("quick", 5), timeout_seconds=60, ignore_result=True)
        journal.wait(
            lambda entries: {f"quick{n}" for n in range(5)} <= {e.label for e in entries},
            what="what is in time to run meanwhile",
        )
    finally:
        backend.send_signal(signal.SIGCONT)
    wait_until(
        lambda: _dropped(app, worker) == 5, "the drops, once the backend answers", timeout=20
    )
    app.close()
