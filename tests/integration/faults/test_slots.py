"""Slots under faults: in use is what Celery itself calls active, and the audit finds nothing."""

from __future__ import annotations

import os
import signal

import pytest

from tests.brokers.waiting import wait_until
from tests.integration.traps.conftest import QUEUES

LONG_SECONDS = 25.0


def in_use(site, worker):
    return site.ask(worker, "fair_books")["in_use"]


def wait_at_rest(site, worker):
    """Wait until no slot is in use and nothing active, by what the pool told alone; the status."""
    books = {}

    def at_rest():
        books.update(site.ask(worker, "fair_books"))
        return books["in_use"] == books["active"] == 0

    wait_until(at_rest, lambda: f"no slot to be in use: {books}", timeout=LONG_SECONDS)
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
    wait_at_rest(site, worker)
    site.send("b.sleep", "after")
    site.journal.wait_finished("after")
    assert site.journal.started() == ["limited", "after"]


@pytest.mark.parametrize(
    ("pool", "naive"),
    [("gevent", ""), ("gevent", "trust_callbacks"), ("eventlet", "")],
    ids=["gevent-cured", "gevent-naive", "eventlet-cured"],
)
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


@pytest.mark.parametrize(
    ("pool", "naive"),
    [("threads", ""), ("threads", "leave_celerys_books"), ("gevent", ""), ("eventlet", "")],
    ids=["threads-cured", "threads-naive", "gevent-cured", "eventlet-cured"],
)
def test_a_task_that_exits_or_runs_out_of_memory_leaves_slot_and_books(
    site, pool, naive, refuted, full
):
    """Celery's own callback fails on what a thread or a greenlet that exits is called back with."""
    if not full and pool == "eventlet":
        pytest.skip("with --full")
    worker = site.start(naive, pool=pool, env={"STRIKE": "audit_often"}, settings={"reserve": 0})
    count = 100 if full else 5
    for number in range(count):
        site.send("b.exiting", f"exit{number}")
        site.send("b.hungry", f"hungry{number}")
    site.journal.wait_count(2 * count, "error", LONG_SECONDS)
    wait_until(lambda: in_use(site, worker) == 0, "no slot to be in use")
    if naive:
        refuted(lambda: site.ask(worker, "fair_books")["active"] == 0, seconds=3)
        return
    wait_at_rest(site, worker)
    site.send("i.sleep", "after")
    site.journal.wait_finished("after")


@pytest.mark.parametrize(
    ("pool", "name"),
    [("prefork", "b.hungry"), ("solo", "b.exiting")],
    ids=["prefork-memory", "solo-exit"],
)
def test_a_task_that_ends_a_plain_worker_ends_ours_and_loses_no_more(site, pool, name, full):
    """Under these pools Celery takes such an exception for its own, and stops."""
    if not full and pool == "solo":
        pytest.skip("with --full")
    left = {}
    for enabled in (True, False):
        worker = site.start(
            pool=pool,
            concurrency=1,
            queues=QUEUES,
            settings={"enabled": enabled},
            hostname=f"{enabled}@test",
        )
        site.send(name, "bad")
        for number in range(10):
            site.send("b.sleep", f"b{number}", 0.01)
        exit_code = worker.wait(LONG_SECONDS)
        done = len(site.journal.finished())
        left[enabled] = (exit_code, site.unacknowledged(), done + len(site.take_all(*QUEUES)))
        site.journal.path.unlink()
    assert left[True] == left[False] == (1, 0, 10)


def test_the_audit_says_what_it_frees(site):
    """Expected to find nothing; here no pool gives any slot back."""
    worker = site.start("forget_slots", concurrency=1, env={"STRIKE": "audit_often"})
    site.send("b.sleep", "first")
    site.send("b.sleep", "second")
    site.journal.wait_finished("first", "second", timeout=LONG_SECONDS)
    site.wait_status(worker, lambda status: status["slots"]["audited"] == 2)
    assert in_use(site, worker) == 0
    found = worker.wait_for_log(r"WARNING.* the slot of (\S+) was never given back; freed")
    assert found[1].startswith("b.sleep[")


@pytest.mark.timeout(600)
def test_a_child_killed_from_outside_is_replaced_and_its_slot_is_free(site, full):
    """L1: four processes again within seconds, and three of them for batch as before."""
    worker = site.start(pool="prefork", concurrency=4, settings={"reserve": 1})
    kills = 50 if full else 1
    site.block("b.until", *(f"b{number}" for number in range(kills + 3)))
    for number in range(kills):
        started = site.journal.wait_count(3 + number, "start", LONG_SECONDS)[-1]
        os.kill(started.pid, signal.SIGKILL)
        wait_until(lambda: len(worker.children()) == 4, "four children", timeout=LONG_SECONDS)
    site.journal.wait_count(3 + kills, "start", LONG_SECONDS)

    def books():
        found = site.ask(worker, "fair_books")
        return found["in_use"], found["active"]

    # A child's word that it has begun comes to the books after what it writes into the journal.
    wait_until(lambda: books() == (3, 3), lambda: f"three in use: {books()}")
    site.release()
    wait_at_rest(site, worker)


def test_a_task_that_always_kills_its_child_costs_others_nothing_but_its_slot(site):
    """L2: requeued each time, without end, and interactive tasks go on."""
    worker = site.start(pool="prefork", concurrency=2, settings={"reserve": 1})
    poison = site.send("b.dying_late", "poison")
    for number in range(8):
        site.send("i.sleep", f"i{number}", 0.05)
        site.journal.wait_finished(f"i{number}", timeout=LONG_SECONDS)
    site.journal.wait(lambda entries: sum(e.label == "poison" for e in entries) >= 3, LONG_SECONDS)
    shown = site.wait_status(worker, lambda status: status["ended_by_pool"])["ended_by_pool"]
    assert [(one["id"], one["task"]) for one in shown] == [(poison.id, "b.dying_late")]
    assert shown[0]["times"] >= 2
    poison.revoke()
    wait_until(lambda: site.unacknowledged() == site.ready("celery.batch") == 0, "it to be gone")
    wait_at_rest(site, worker)
    assert set(site.starts().values()) == {1, site.starts()["poison"]}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("naive", ["", "tick_in_a_thread"], ids=["cured", "naive"])
def test_children_that_are_replaced_after_each_task_leak_no_slot(site, naive, full):
    """L4, S12: forked while no thread of ours runs, so that no child inherits a lock that is held.

    Each imports what the parent has not, and logs, which is where such a child would hang.
    """
    worker = site.start(
        naive,
        pool="prefork",
        concurrency=8,
        args=["--max-tasks-per-child", "1"],
        env={"STRIKE": "look_at_forks", "PYTHONDEVMODE": "1"},
    )
    count = 8 if naive else 3000 if full else 24
    for number in range(count):
        site.send("bi"[number % 2] + ".importing", f"{number}", number, time_limit=60)
    wait_until(
        lambda: len(site.journal.finished()) == count, "all to end", timeout=1000, poll_seconds=0.5
    )
    wait_at_rest(site, worker)
    assert set(site.starts().values()) == {1}
    forks = site.journal.entries("fork")
    assert len(forks) >= count
    quiet = {(fork.label, *fork.more["threads"]) for fork in forks} == {("0", "MainThread")}
    assert quiet is not bool(naive)
