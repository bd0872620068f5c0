"""No kind of waiting stops a lane: neither Celery's own flags, nor ETAs, nor rate limits."""

from __future__ import annotations

import time

import pytest

from celery_fair.headers import FairHeader
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0


@pytest.mark.parametrize("naive", ["", "install_late"], ids=["cured", "naive"])
def test_our_hooks_are_there_before_the_strategies_look_them_up(site, naive):
    """S1: a task's strategy keeps ``on_task_request`` and its like from ``Tasks.start`` on."""
    worker = site.start(naive, concurrency=2)
    site.send("i.sleep", "i")
    site.send("b.sleep", "b")
    site.journal.wait_finished("i", "b")
    kinds = site.ask(worker)["kinds"]
    dispatched = [kinds[kind]["dispatched"] for kind in ("interactive", "batch")]
    assert dispatched == ([0, 0] if naive else [1, 1])


@pytest.mark.parametrize("naive", ["", "keep_other_gates"], ids=["cured", "naive"])
def test_held_batch_does_not_shut_the_interactive_lane_without_prefetch(site, naive, refuted):
    """S2: ``worker_disable_prefetch`` counts the requests of both lanes, and over reconnects."""
    conf = {"worker_disable_prefetch": True}
    settings = {"batch_max_slots": 1}
    worker = site.start(naive, concurrency=2, hoard=3, conf=conf, settings=settings)
    site.block("b.until", *(f"b{number}" for number in range(4)))
    site.wait_held(worker, "batch", 3)
    site.send("i.sleep", "i")
    if naive:
        refuted(lambda: "i" in site.journal.started())
        return
    site.journal.wait_finished("i")
    for number in range(3):
        site.reconnect(worker)
        site.wait_held(worker, "batch", 3)
        site.send("i.sleep", f"i{number}")
        site.journal.wait_finished(f"i{number}")


MODES = {
    "redis": ("redis", ""),
    "rabbitmq": ("rabbitmq", ""),
    "per-consumer": ("rabbitmq", "prefetch_per_consumer"),
}


@pytest.mark.parametrize("naive", ["", "scheduled_take_credit"], ids=["cured", "naive"])
@pytest.mark.parametrize(("broker", "mode"), MODES.values(), ids=MODES, indirect=["broker"])
def test_tasks_with_an_eta_do_not_block_those_behind_them(site, mode, naive, refuted):
    """S3: they stay unacknowledged until they are due, for hours perhaps."""
    worker = site.start(f"{mode} {naive}", concurrency=4)
    for number in range(30):
        site.send("b.late", f"later{number}", countdown=3600)
    for number in range(10):
        site.send("b.late", f"now{number}")
    if naive:
        refuted(lambda: site.journal.finished())
        return
    site.journal.wait_count(10, timeout=LONG_SECONDS)
    status = site.wait_status(worker, lambda now: now["kinds"]["batch"]["scheduled"] == 30)
    assert status["kinds"]["batch"]["held"] == 0


@pytest.mark.brokers("redis", "rabbitmq")
def test_the_window_is_whole_again_after_the_eta_tasks(site):
    """S3: ``worker_eta_task_limit`` lowers Celery's own prefetch count for good."""
    worker = site.start(concurrency=4, conf={"worker_eta_task_limit": 5})
    for number in range(15):
        site.send("i.late", f"later{number}", countdown=1)
    site.journal.wait_count(15, timeout=LONG_SECONDS)
    site.block("i.until", *(f"i{number}" for number in range(4)))
    site.journal.wait_started(*(f"i{number}" for number in range(4)))
    assert site.ask(worker)["kinds"]["interactive"]["scheduled"] == 0


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("naive", ["", "limited_are_free"], ids=["cured", "naive"])
def test_a_rate_limit_leaves_the_rest_at_the_broker_and_interactive_alone(site, naive):
    """S4: what waits for a token is in neither of Celery's books, and still takes the window."""
    worker = site.start(naive, concurrency=4, settings={"lookahead_seconds": 0})
    for number in range(40):
        site.send("b.limited", f"b{number}")
    site.journal.wait_count(1)
    for number in range(5):
        site.send("i.sleep", f"i{number}")
        site.journal.wait_finished(f"i{number}")
    if naive:
        wait_until(lambda: site.ready("celery.batch") == 0, "all 40 to be fetched")
        return
    status = site.wait_status(worker, lambda status: status["kinds"]["batch"]["rate_limited"])
    fetched = status["kinds"]["batch"]["rate_limited"]
    assert fetched <= 4
    assert site.ready("celery.batch") == 39 - fetched


@pytest.mark.parametrize("naive", ["", "believe_publishers_clocks"], ids=["cured", "naive"])
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_publisher_whose_clock_is_off_moves_no_mode(site, hours, naive):
    """S17, S21: each of its tasks looks an hour late, or not yet published."""
    worker = site.start(naive, concurrency=4, settings={"protect_wait_seconds": 5})
    for number in range(4):
        at = time.time() + 3600 * hours
        header = FairHeader("interactive", at, at).as_line()
        _send_raw(site, "i.sleep", f"i{number}", header)
        site.journal.wait_finished(f"i{number}")
        site.ask(worker)
    status = site.wait_status(worker, lambda status: status["sensor"]["reads"] >= 2)
    assert status["clock_skew_clamps"] == (4 if hours > 0 else 0)
    changes = sum(sum(by_cause.values()) for by_cause in status["gate"]["changes"].values())
    assert changes > 0 if naive and hours < 0 else changes == 0


def _send_raw(site, name, label, header):
    """Publish as a process without celery-fair, or with another clock, would."""
    type(site.app).send_task(site.app, name, (label,), headers={"fair": header}, queue="celery")
