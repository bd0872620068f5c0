"""A worker that is killed, or loses its connection, loses no message that waits in it."""

from __future__ import annotations

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0


@pytest.mark.parametrize("naive", ["", "shut_under_a_pop"], ids=["cured", "naive"])
def test_a_gate_that_shuts_during_a_pop_loses_nothing_to_a_sigkill(site, naive):
    """T1: a BRPOP in flight may have popped a message already, which then is in no Redis key."""
    # However slow the machine: the BRPOP does not end by itself, and batch is not owed meanwhile.
    conf = {"broker_transport_options": {"polling_interval": 60}}
    settings = {"batch_share": 0.01}
    worker = site.start(naive, pool="threads", concurrency=2, conf=conf, settings=settings)
    wait_until(lambda: site.pops(worker) == 2, "a BRPOP a lane", timeout=LONG_SECONDS)
    site.block("i.until", "i0", "i1")  # no slot is free: the batch lane shuts, its BRPOP waits
    site.journal.wait_started("i0", "i1")
    site.wait_status(worker, lambda status: status["kinds"]["batch"]["credit"] == 0)
    for number in range(8):
        site.send("b.late", f"b{number}")
    wait_until(lambda: site.ready("celery.batch") == 7, "the pending BRPOP to pop one of 8")
    site.ask(worker)  # twice through the loop: what it reads of the reply, it has read
    site.ask(worker)
    worker.kill()
    left = site.ready("celery.batch") + site.unacknowledged()
    assert site.starts() == {"i0": 1, "i1": 1}
    assert left == (7 if naive else 8)


@pytest.mark.parametrize("naive", ["", "leave_pops_unread"], ids=["cured", "naive"])
def test_what_was_unacknowledged_comes_back_though_both_pops_were_in_flight(site, naive):
    """T2: closing one channel raised for the other, and the clean-up stopped there.

    Tasks with an ETA leave the windows unfilled; with full ones there is no BRPOP, and no trap.
    """
    # However slow the machine: no BRPOP ends by itself before the connections are cut.
    conf = {"broker_transport_options": {"polling_interval": 60}}
    worker = site.start(naive, pool="threads", concurrency=4, conf=conf)
    for number in range(5):
        site.send("i.late", f"i{number}", countdown=3600)
        site.send("b.late", f"b{number}", countdown=3600)
    wait_until(lambda: site.ask(worker, "fair_probe")["scheduled"] == 10, "10 scheduled")
    wait_until(lambda: site.are_in_flight(worker, 2), "both lanes to have a BRPOP in flight")
    if naive:  # the worker dies of the second channel's error
        site.cut(worker)
        assert worker.wait(LONG_SECONDS) != 0
        return
    site.reconnect(worker)
    site.send("i.late", "i fresh")
    site.send("b.late", "b fresh")
    site.journal.wait_finished("i fresh", "b fresh")  # behind what has come back
    assert site.ask(worker, "fair_probe")["scheduled"] == 10


@pytest.mark.parametrize("naive", ["", "two_channels_for_solo"], ids=["cured", "naive"])
def test_solo_pops_nothing_while_a_task_blocks_its_loop(site, naive):
    """T4: what a second channel's BRPOP has popped sits in the socket for all of a long task."""
    # However slow the machine: the double's BRPOP does not end by itself before the messages come.
    conf = {"broker_transport_options": {"polling_interval": 60}} if naive else {}
    worker = site.start(naive, pool="solo", concurrency=1, conf=conf)
    site.block("b.late_until", "long")
    site.journal.wait_started("long")
    for number in range(3):
        site.send("i.late", f"i{number}")
    site.send("b.late", "b")
    popped = 3 - site.ready("celery")
    worker.kill()
    left = site.ready("celery") + site.ready("celery.batch") + site.unacknowledged()
    assert (popped, left) == ((1, 4) if naive else (0, 5))


@pytest.mark.parametrize("naive", ["", "solo_takes_turns"], ids=["cured", "naive"])
def test_solo_decides_at_each_pop_which_kind_comes(site, naive):
    """T4, S8: with a share of 0.2, five interactive tasks run for each of batch: ``iiiiib``.

    kombu itself takes one of each in turn.
    """
    for number in range(20):
        site.send("b.sleep", f"b{number}", 0.1)
        site.send("i.sleep", f"i{number}", 0.1)
    site.start(naive, pool="solo", concurrency=1)
    starts = [e for e in site.journal.wait_count(16, "start", LONG_SECONDS) if e.event == "start"]
    order = "".join(entry.label[0] for entry in starts[:16])
    # By the time that has passed: a machine that stands still owes batch for it.
    owed = 0.2 * (starts[15].at - starts[0].at) / 0.1
    assert order.count("b") >= 5 if naive else order.count("b") <= max(3, owed + 1), order


@pytest.mark.parametrize("naive", ["", "start_unasked"], ids=["cured", "naive"])
def test_a_revoked_task_that_is_held_ends_as_revoked_and_takes_no_slot(site, naive, refuted):
    """T6: Celery swallows the error that says so, and nothing would give the slot back."""
    worker = site.start(naive, pool="threads", concurrency=1, hoard=4)
    site.block("i.until", "first")
    site.journal.wait_started("first")
    results = [site.send("i.sleep", f"revoked{number}") for number in range(2)]
    site.send("i.sleep", "last")
    site.wait_held(worker, "interactive", 3)
    site.app.control.revoke([result.id for result in results])
    site.ask(worker)  # behind the revocation
    site.release()
    if naive:
        refuted(lambda: "last" in site.journal.started())
        return
    site.journal.wait_finished("last")
    assert [result.get(timeout=LONG_SECONDS, propagate=False) for result in results]
    assert [result.state for result in results] == ["REVOKED", "REVOKED"]
    assert site.journal.started() == ["first", "last"]
    status = site.wait_status(worker, lambda now: now["kinds"]["interactive"]["running"] == 0)
    assert status["slots"]["audited"] == 0
