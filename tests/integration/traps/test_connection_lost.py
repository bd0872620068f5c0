"""What a lost connection leaves behind in the worker holds no slot, and is never run."""

from __future__ import annotations

import contextlib

import psutil
import pytest

from tests.apps.mixed import INTERACTIVE_QUEUE
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0


@pytest.fixture
def frozen():
    """``frozen(worker)``: its pool's children accept nothing until the block ends."""

    @contextlib.contextmanager
    def freeze(worker):
        children = psutil.Process(worker.pid).children()
        for child in children:
            child.suspend()
        try:
            yield
        finally:
            for child in children:
                child.resume()

    return freeze


@pytest.mark.parametrize("naive", ["", "keep_flushed_slots"], ids=["cured", "naive"])
def test_jobs_that_a_lost_connection_flushes_give_their_slots_back(site, frozen, naive, refuted):
    """T5: the pool drops what no child has accepted, and calls nobody back."""
    worker = site.start(naive, pool="prefork", concurrency=2)
    with frozen(worker):
        site.send("i.late", "i0")
        site.send("i.late", "i1")
        _wait_dispatched(site, worker, 2)
        site.reconnect(worker)
        if naive:  # both have come back, and find their own slots taken
            refuted(lambda: _dispatched(site, worker) > 2)
            return
        _wait_dispatched(site, worker, 4)
        assert site.ask(worker, "fair_probe")["slots_in_use"] == 2
    site.journal.wait_finished("i0", "i1", timeout=LONG_SECONDS)
    wait_until(lambda: site.ask(worker, "fair_probe")["slots_in_use"] == 0, "no slot in use")
    assert site.ask(worker)["slots"]["audited"] == 0


def _dispatched(site, worker):
    return site.ask(worker)["kinds"]["interactive"]["dispatched"]


def _wait_dispatched(site, worker, count):
    site.wait_status(worker, lambda now: now["kinds"]["interactive"]["dispatched"] == count)


@pytest.mark.parametrize("naive", ["", "hold_over_a_loss"], ids=["cured", "naive"])
def test_what_was_held_when_the_connection_was_lost_runs_once(site, naive):
    """T5: the broker gives it out again, so this copy must not be dispatched meanwhile."""
    away = site.folder / "away"
    worker = site.start(naive, pool="gevent", concurrency=1, hoard=3, env={"AWAY": str(away)})
    site.block("i.late_until", "running")
    site.journal.wait_started("running")
    for number in range(3):
        site.send("i.late", f"held{number}")
    site.wait_held(worker, "interactive", 3)
    away.touch()
    site.cut(worker)
    worker.wait_for_log("Connection to broker lost", LONG_SECONDS)
    # Else what runs might end, and be acknowledged, before Celery gives it back.
    wait_until(lambda: site.ready(INTERACTIVE_QUEUE) == 4, "all to be back at the broker")
    site.release()
    site.journal.wait_finished("running")
    if naive:
        site.journal.wait_finished("held0", "held1", "held2")
    away.unlink()
    site.journal.wait_count(5 + (3 if naive else 0), timeout=LONG_SECONDS)
    wait_until(lambda: site.unacknowledged() == 0, "all to be acknowledged", timeout=LONG_SECONDS)
    copies = 2 if naive else 1
    # With late acknowledgement what was running comes again, with celery-fair or without.
    assert site.starts() == {"running": 2, **{f"held{number}": copies for number in range(3)}}
