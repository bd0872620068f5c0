"""Slots under faults: in use is what Celery itself calls active, and the audit finds nothing."""

from __future__ import annotations

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
AT_ONCE_SECONDS = 2.0
"""Well before the audit, which frees a slot at its second look: five to ten seconds."""


def in_use(site, worker):
    return site.ask(worker, "fair_books")["in_use"]


def wait_at_rest(site, worker, timeout=LONG_SECONDS):
    """Wait until no slot is in use and nothing active, by what the pool told alone; the status."""
    books = {}

    def at_rest():
        books.update(site.ask(worker, "fair_books"))
        return books["in_use"] == books["active"] == 0

    wait_until(at_rest, lambda: f"no slot to be in use: {books}", timeout=timeout)
    status = site.ask(worker)
    assert status["slots"]["audited"] == 0
    assert [kind["running"] for kind in status["kinds"].values()] == [0, 0]
    return status


@pytest.mark.parametrize("naive", ["", "settle_only_at_once"], ids=["cured", "naive"])
def test_a_task_revoked_while_the_semaphore_keeps_it_leaves_its_slot(site, naive, refuted):
    """A hard time limit frees the slot before the child is reaped, which frees the semaphore."""
    worker = site.start(
        naive,
        pool="prefork",
        concurrency=1,
        hoard=2,
        env={"STRIKE": "revoke_at_a_time_limit:next"},
    )
    site.send("b.sleep", "limited", 60, time_limit=1)
    site.journal.wait_started("limited")
    site.send("b.sleep", "next", task_id="next")
    site.journal.wait_count(1, "parked", LONG_SECONDS)
    assert site.journal.labels("parked") == ["1"]
    if naive:
        refuted(lambda: in_use(site, worker) == 0)
        return
    wait_at_rest(site, worker, AT_ONCE_SECONDS)
    site.send("b.sleep", "after")
    site.journal.wait_finished("after")
    assert site.journal.started() == ["limited", "after"]


@pytest.mark.parametrize("naive", ["", "trust_callbacks"], ids=["cured", "naive"])
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_a_greenlet_that_was_killed_before_it_began_leaves_its_slot(site, pool, naive, refuted):
    """T7: nobody calls back, since there was nothing to end."""
    worker = site.start(
        naive, pool=pool, concurrency=1, env={"STRIKE": "kill_before_it_begins:unbegun"}
    )
    site.send("b.sleep", "unbegun")
    site.journal.wait_count(1, "killed", LONG_SECONDS)
    site.send("b.sleep", "next")
    if naive:
        refuted(lambda: "next" in site.journal.finished())
        assert in_use(site, worker) == 1
        return
    site.journal.wait_finished("next", timeout=LONG_SECONDS)
    wait_at_rest(site, worker)
    assert site.journal.started() == ["next"]
