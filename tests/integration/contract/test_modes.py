"""Observing, switched off, and what a worker says of itself."""

from __future__ import annotations

import json
import time

import pytest

from tests.apps import mixed
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import ask, labels, publish, runs

SLOTS = 2


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


def _fill_then_interactive(app, journal):
    """A batch backlog of 12 in Celery's hands, then one interactive task; all of them ended.

    Their order, for how long the first had run when the last of batch was published, and when it
    had begun.
    """
    publish(app, "b.sleep", labels("b", 12), 0.3)
    published_at = time.time()
    journal.wait_started("b0", "b1")
    publish(app, "i.sleep", ["i0"])
    journal.wait_count(13, timeout=40)
    order = runs(journal.entries())
    begun_at = order[0].started_at
    return [run.label for run in order], max(published_at - begun_at, 0.0), begun_at


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.brokers("redis", "rabbitmq")
def test_observing_keeps_celerys_order_and_counts_what_it_would_do(
    pool, start_worker, app, journal
):
    env = {"CELERY_FAIR__MODE": "observe", "CELERY_FAIR__RESERVE": "1"}
    worker = start_worker("tests.apps.mixed", pool=pool, concurrency=SLOTS, env=env)
    order, late_seconds, begun_at = _fill_then_interactive(app, journal)
    # Celery prefetches 2 × 4; the interactive task has to wait for a slot behind them.
    assert order.index("i0") >= SLOTS
    status = wait_until(lambda: _at_rest(app, worker), "no slot to be in use")
    assert status["mode"] == "observe"
    kinds = status["kinds"]
    assert kinds["batch"]["dispatched"] == 12
    assert kinds["interactive"]["dispatched"] == 1
    assert kinds["batch"]["wait_seconds"]["count"] == 12
    # 12 × 0.3 s on two slots: a wait lasts until the pool begins a task, whoever holds it until.
    assert kinds["batch"]["wait_seconds"]["max"] >= 1.4 - late_seconds
    # Nor has any had a slot while it waited: two were in use at the most.
    assert kinds["batch"]["slot_seconds"] < SLOTS * (time.time() - begun_at + 0.5)
    assert status["slots"]["audited"] == 0
    # One of them may run beside the reserve, if the worker has looked for others by then.
    assert 6 <= kinds["batch"]["would_have_held"] <= 12
    assert kinds["batch"]["held"] == 0


def _at_rest(app, worker):
    status = ask(app, worker.hostname)
    return None if any(kind["running"] for kind in status["kinds"].values()) else status


@pytest.mark.brokers("redis", "rabbitmq")
def test_observing_fills_every_slot_with_batch(start_worker, app, journal):
    env = {"CELERY_FAIR__MODE": "observe", "CELERY_FAIR__RESERVE": "1"}
    start_worker("tests.apps.mixed", concurrency=SLOTS, env=env)
    publish(app, "b.sleep", labels("b", 4), 60)
    wait_until(lambda: len(journal.running()) == SLOTS, "a batch task in each slot", timeout=20)


@pytest.mark.brokers("redis", "rabbitmq")
def test_switched_off_it_is_plain_celery(start_worker, app, journal):
    worker = start_worker(
        "tests.apps.mixed",
        concurrency=SLOTS,
        queues="celery,celery.batch",
        env={"CELERY_FAIR__ENABLED": "false"},
    )
    order, *_ = _fill_then_interactive(app, journal)
    assert order.index("i0") >= SLOTS
    assert "fair" not in ask(app, worker.hostname, "stats")
    why = "plain Celery, since the setting `enabled` is false"
    assert ask(app, worker.hostname) == {"error": why}
    assert "celery-fair:" not in worker.log_text()


def _stats_of(app, worker, slots):
    stats = ask(app, worker.hostname, "stats")
    return stats if stats["fair"]["slots"] == slots else None


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet", "solo"])
def test_stats_have_a_small_flat_key_beside_celerys_own(pool, start_worker, app, journal):
    worker = start_worker("tests.apps.mixed", pool=pool, concurrency=SLOTS)
    slots = 1 if pool == "solo" else SLOTS
    publish(app, "i.sleep", ["i0"])
    journal.wait_finished("i0")
    # A tick after the start it knows the pool's size: solo's is 1, whatever -c says.
    stats = wait_until(
        lambda: _stats_of(app, worker, slots),
        lambda: f"{slots} slots: {ask(app, worker.hostname, 'stats')}",
    )
    fair = stats["fair"]
    assert fair["gate"] == "open"
    assert all(isinstance(value, (str, int, float)) for value in fair.values())
    assert len(json.dumps(fair)) < 300
    assert stats["broker"]["transport"] == "redis"
    # What both lanes may hold: their slots, and no more ahead of these than Celery's multiplier.
    assert 0 <= stats["prefetch_count"] <= 2 * slots * (1 + 4)


def test_a_status_reply_stays_small_over_two_hundred_queues(start_worker, broker, journal):
    names = [f"reports.{number:04}" for number in range(200)]
    queues = {"batch": names}
    app = mixed.make_app(broker, fair={"queues": queues})
    worker = start_worker(
        "tests.apps.mixed", env={"CELERY_CONF": json.dumps({"fair": {"queues": queues}})}
    )
    for name in names[::10]:
        publish(app, "b.sleep", [name], queue=name)
    journal.wait_finished(*names[::10], timeout=40)
    reply = ask(app, worker.hostname)
    app.close()
    assert len(json.dumps(reply)) < 8192


@pytest.mark.brokers("redis", "rabbitmq", "filesystem", "sqlite")
def test_the_worker_says_in_one_line_how_its_slots_are_split(broker, start_worker):
    worker = start_worker(
        "tests.apps.mixed", concurrency=4, env={"CELERY_FAIR__PROTECT_BACKLOG": "7"}
    )
    lines = [line for line in worker.log_text().splitlines() if "celery-fair: 4 slots" in line]
    assert len(lines) == 1
    for part in (
        "reserve auto",
        "0.2 of the time",
        "7 interactive waiting or 0.3 s",
        "interactive=celery batch=celery.batch",
        "sensor on",
        "mode enforce",
    ):
        assert part in lines[0]
