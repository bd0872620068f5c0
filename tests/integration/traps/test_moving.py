"""A queue changes its kind, or its worker's pool its size, at run time."""

from __future__ import annotations

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
MOVED = "reports"


@pytest.mark.brokers("redis", "rabbitmq")
@pytest.mark.parametrize("naive", ["", "two_lanes_a_queue"], ids=["cured", "naive"])
def test_a_queue_that_changes_its_kind_changes_its_lane(site, naive):
    """T13: cancelled in one lane, then consumed in the other, and never in both.

    Over two channels the other lane goes on receiving for it: kombu calls back by the queue's name
    on Redis, where all come, and RabbitMQ sends them to both, where one too many runs.
    """
    settings = {"batch_max_slots": 1, "lookahead_seconds": 0}
    worker = site.start(naive, concurrency=2, queues=["celery", MOVED], settings=settings)
    for kind in ("batch",) if naive else ("batch", "interactive", "batch"):
        _move(site, kind)
        site.send("i.late", kind, queue=MOVED)
        site.journal.wait_finished(kind, timeout=LONG_SECONDS)
    site.block("i.late_until", "running", queue=MOVED)
    site.journal.wait_started("running")
    for number in range(10):
        site.block("i.late_until", f"waiting{number}", queue=MOVED)
    if naive:
        wait_until(
            lambda: site.ready(MOVED) == 0 or len(site.journal.running()) > 1,
            "all to be received, or a second one to run",
        )
        return
    site.ask(worker)
    site.ask(worker)
    assert site.ready(MOVED) >= 9
    assert site.journal.running() == ["running"]
    site.release()
    site.journal.wait_count(3 + 11, timeout=LONG_SECONDS)
    kinds = site.ask(worker)["kinds"]
    assert (kinds["interactive"]["dispatched"], kinds["batch"]["dispatched"]) == (1, 2 + 11)


def _move(site, kind):
    site.app.control.broadcast(
        "fair_move", {"queue": MOVED, "kind": kind}, reply=True, limit=1, timeout=5
    )


@pytest.mark.parametrize("naive", ["", "window_of_the_present_pool"], ids=["cured", "naive"])
def test_a_pool_grows_after_a_reconnect_too(site, naive, refuted):
    """S9: Celery grows a pool by what is reserved, and what is reserved follows the pool."""
    worker = site.start(
        naive,
        pool="prefork",
        args=["--autoscale=4,1"],
        conf={"worker_prefetch_multiplier": 1},
        settings={"lookahead_seconds": 0},
        env={"AUTOSCALE_KEEPALIVE": "1"},
    )
    site.reconnect(worker)
    site.block("i.late_until", *(f"i{number}" for number in range(8)))
    if naive:
        refuted(lambda: len(site.journal.started()) > 1, seconds=3)
        return
    site.journal.wait_count(4, "start", LONG_SECONDS)
    assert site.ask(worker)["slots"]["total"] == 4
