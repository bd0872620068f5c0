"""A warm shutdown ends what runs, starts nothing, and gives back what is held."""

from __future__ import annotations

from collections import Counter

import pytest

LONG_SECONDS = 25.0
POOLS = ("prefork", "threads", "gevent", "solo")


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("pool", POOLS)
def test_what_is_held_goes_back_to_the_broker(site, pool):
    """T9: nothing is lost, nothing runs twice, and nothing is started any more."""
    held = _stop_with_held_tasks(site, pool)
    assert Counter(site.take_all()) == Counter(result.id for result in held)
    assert site.starts() == Counter(_running(pool))


@pytest.mark.brokers("redis", "rabbitmq")
def test_greenlets_would_go_on_with_what_is_held(site):
    """T9 without its cure: the pool's own end frees slots, and held tasks would take them."""
    _stop_with_held_tasks(site, "gevent", naive="dispatch_while_stopping")
    assert sum(site.starts().values()) > 2


def _running(pool):
    return ("run0",) if pool == "solo" else ("run0", "run1")


def _stop_with_held_tasks(site, pool, naive=""):
    """Stop a worker that has no slot free and holds some of each kind; the results of those."""
    worker = site.start(naive, pool=pool, concurrency=2, hoard=3, conf={"broker_heartbeat": 0})
    site.block("i.late_until", *_running(pool))
    site.journal.wait_started(*_running(pool))
    held = [site.send(f"{kind}.late", f"{kind}{number}") for number in range(5) for kind in "ib"]
    if pool != "solo":  # whose loop is in the task
        site.wait_held(worker, "interactive", 3)
        site.wait_held(worker, "batch", 3)
    worker.terminate()
    worker.wait_for_log("Warm shutdown", LONG_SECONDS)
    site.release()
    assert worker.wait(LONG_SECONDS) == 0
    if site.broker.name == "redis":
        assert site.unacknowledged() == 0
    return held
