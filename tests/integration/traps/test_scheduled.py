"""Tasks that wait for their time are counted exactly, whatever ends their waiting."""

from __future__ import annotations

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
EXACT = {"lookahead_seconds": 0, "reserve": 1}


@pytest.mark.parametrize("naive", ["", "never_recount"], ids=["cured", "naive"])
def test_revoked_tasks_no_longer_count_as_scheduled(site, naive, refuted):
    """Their messages stay unacknowledged until they are due, and Celery tells nobody."""
    worker = site.start(naive, concurrency=2, conf={"worker_eta_task_limit": 20})
    results = [site.send("b.late", f"later{number}", countdown=600) for number in range(20)]
    site.wait_status(worker, lambda now: now["kinds"]["batch"]["scheduled"] == 20)
    site.app.control.revoke([result.id for result in results])
    site.send("b.late", "now")
    site.send("i.late", "i")
    site.journal.wait_finished("i", timeout=LONG_SECONDS)
    if naive:  # the lane has as many as it may hold
        refuted(lambda: "now" in site.journal.started())
        return
    site.journal.wait_finished("now", timeout=LONG_SECONDS)
    assert site.ask(worker)["kinds"]["batch"]["scheduled"] == 0
    wait_until(lambda: site.unacknowledged() == 20, "the other two to be acknowledged")


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "eventlet"])
def test_retries_are_counted_that_come_before_their_first_attempts_have_ended(site, pool, refuted):
    """The two have one id, by which Celery's book of requests forgets both as the first ends."""
    settings = {**EXACT, "batch_retry_budget": None}
    worker = site.start(pool=pool, concurrency=4, settings=settings)
    for number in range(5):
        site.send("b.retrying", f"b{number}", 1, 600.0)
        site.journal.wait_count(number + 1, "retry")
    site.wait_status(worker, lambda now: now["kinds"]["batch"]["scheduled"] == 5)
    refuted(lambda: site.ask(worker)["kinds"]["batch"]["scheduled"] != 5)
    assert site.unacknowledged() == 5


@pytest.mark.timeout(300)
def test_retries_leave_nothing_behind_in_the_counts(site, full):
    """Several each, and as many as the lane may hold: what were never taken back would stop it."""
    tasks, retries, countdown = (500, 3, 20.0) if full else (40, 2, 1.0)
    conf = {"worker_prefetch_multiplier": 1, "task_acks_late": True, "worker_eta_task_limit": tasks}
    # Half of them would wait for their budget.
    settings = {**EXACT, "batch_retry_budget": None}
    worker = site.start(concurrency=2, conf=conf, settings=settings)
    for number in range(tasks):
        site.send("b.retrying", f"b{number}", retries, countdown)
    site.journal.wait_count(tasks, timeout=200 if full else LONG_SECONDS)
    wait_until(lambda: site.unacknowledged() == 0, "the last to be acknowledged")
    status = site.wait_status(worker, lambda now: now["kinds"]["batch"]["scheduled"] == 0)
    assert set(site.starts().values()) == {1 + retries}
    assert (status["kinds"]["batch"]["held"], status["slots"]["audited"]) == (0, 0)
    _wait_window(site, worker)


@pytest.mark.timeout(900)
def test_at_rest_the_window_is_what_it_was(site, full):
    """Pools grown and shrunk, connections lost, ETA tasks and retries: nothing adds up."""
    conf = {"task_acks_late": True}
    worker = site.start(pool="prefork", concurrency=2, conf=conf, settings=EXACT)
    _wait_window(site, worker)
    for turn in range(40 if full else 1):
        site.app.control.pool_grow(2, reply=True, limit=1, timeout=5)
        site.send("i.late", f"eta{turn}", countdown=0.5)
        site.send("b.retrying", f"retry{turn}", 1, 0.5)
        site.reconnect(worker)
        site.app.control.pool_shrink(2, reply=True, limit=1, timeout=5)
        site.journal.wait_finished(f"eta{turn}", f"retry{turn}", timeout=LONG_SECONDS)
        # Celery 5.7 ends at a reconnect that finds a child gone and not yet reaped.
        wait_until(lambda: len(_children(site, worker)) == 2, "two children", timeout=LONG_SECONDS)

    def books():
        probe = site.ask(worker, "fair_probe")
        return probe["slots_in_use"], probe["scheduled"]

    wait_until(lambda: books() == (0, 0), lambda: f"nothing in use or scheduled: {books()}")
    _wait_window(site, worker)


def _children(site, worker):
    return site.ask(worker, "stats")["pool"]["processes"]


def _wait_window(site, worker):
    """Two slots for interactive tasks, and one of them for batch."""
    wait_until(
        lambda: site.ask(worker, "stats")["prefetch_count"] == 2 + 1,
        lambda: f"a window of 3, not {site.ask(worker, 'stats')['prefetch_count']}",
        timeout=LONG_SECONDS,
    )
