"""What waits is counted wherever it waits: a worker that holds it all leaves an empty list behind.

An autoscaler that reads the list's length would never scale then.
"""

from __future__ import annotations

import pytest

from tests.apps.mixed import BATCH_QUEUE
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
EXACT = {"lookahead_seconds": 0, "reserve": 1, "batch_retry_budget": None}
"""Without a budget: it would have half of the retries wait, for the longer the slower they came."""
WINDOW = 2 + 1
"""Two slots for interactive tasks, and one of them for batch."""
WITHIN = 2
MORE, LIMITED = 20, 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("naive", ["", "never_count_down"], ids=["cured", "naive"])
def test_what_waits_is_what_is_listed_held_limited_and_before_its_time(site, naive, full, refuted):
    """A7: first all is before its time, then due, and more comes; slots are full meanwhile."""
    tasks, countdown = (500, 90.0) if full else (20, 15.0)
    conf = {"worker_prefetch_multiplier": 1, "task_acks_late": True}
    worker = site.start(
        naive, pool="prefork", concurrency=2, conf=conf, settings=EXACT | {"hold_max_seconds": 600}
    )
    if not naive:  # its recount is what shows the window
        wait_window(site, worker)
    site.app.control.rate_limit("b.limited", "30/m", reply=True, limit=1, timeout=5)

    def shows(count):
        return abs(waiting(site, worker) - count) <= WITHIN

    for number in range(tasks):
        site.send("b.retrying", f"b{number}", 1, countdown)
    site.journal.wait_count(tasks, "retry", countdown)
    site.wait_status(worker, lambda now: now["kinds"]["batch"]["scheduled"] == tasks)
    assert site.ready(BATCH_QUEUE) == 0
    # The last count is a second old at the most, and has them still at the broker.
    wait_until(lambda: waiting(site, worker) == tasks, f"{tasks} to wait")

    site.block("i.until", "i1", "i2")
    site.journal.wait_started("i1", "i2", timeout=LONG_SECONDS)
    for number in range(MORE):
        site.send("b.limited" if number < LIMITED else "b.sleep", f"more{number}")
    if not naive:  # that one goes wrong with the first that is due
        wait_until(lambda: shows(tasks + MORE), f"{tasks} + {MORE} seen", timeout=LONG_SECONDS)
    wait_until(lambda: due(site, worker), "all to be due", timeout=countdown + LONG_SECONDS)
    if naive:
        refuted(lambda: shows(tasks + MORE))
        return
    wait_until(lambda: shows(tasks + MORE), f"{tasks} + {MORE} still", timeout=LONG_SECONDS)

    site.release()
    site.journal.wait_count(tasks + MORE + 2, timeout=120 if full else 60)
    site.wait_status(worker, lambda now: set(counts(now)) == {0})
    assert waiting(site, worker) == 0
    wait_window(site, worker)


def waiting(site, worker):
    """What the worker's status says of batch: ready, held or rate-limited, and before its time."""
    batch = site.ask(worker)["kinds"]["batch"]
    return (batch["backlog"] or 0) + batch["scheduled"]


def due(site, worker):
    """Whether Celery's own books have nothing before its time."""
    return site.ask(worker, "fair_probe")["scheduled"] == 0


def counts(status):
    batch = status["kinds"]["batch"]
    return [batch[name] for name in ("backlog", "held", "rate_limited", "scheduled", "running")]


def wait_window(site, worker):
    wait_until(
        lambda: site.ask(worker, "stats")["prefetch_count"] == WINDOW,
        f"a window of {WINDOW}",
        timeout=LONG_SECONDS,
    )
