"""A slot is given back when its task has ended, whatever the pool, and the next task takes it."""

from __future__ import annotations

import psutil
import pytest

LONG_SECONDS = 25.0


def running(status):
    return sum(status["kinds"][kind]["running"] for kind in ("interactive", "batch"))


@pytest.mark.parametrize("naive", ["", "pump_in_the_callback"], ids=["cured", "naive"])
def test_a_greenlet_does_not_wait_for_the_slot_that_it_is_about_to_free(site, naive, refuted):
    """T3: gevent's callback runs in that greenlet, and ``spawn`` waits for a place; seen at c=1."""
    site.start(naive, pool="gevent", concurrency=1, hoard=4)
    for number in range(4):
        site.send("b.sleep", f"b{number}")
        site.send("i.sleep", f"i{number}")
    if naive:
        refuted(lambda: len(site.journal.finished()) == 8)
        return
    site.journal.wait_count(8, timeout=LONG_SECONDS)


@pytest.mark.parametrize(
    ("pool", "naive"),
    [("threads", ""), ("threads", "trust_callbacks"), ("gevent", ""), ("eventlet", "")],
    ids=["threads-cured", "threads-naive", "gevent-cured", "eventlet-cured"],
)
def test_a_task_that_the_request_did_not_accept_leaves_its_slot(site, pool, naive, refuted):
    """T7: where ``on_accepted`` raises no callback comes."""
    worker = site.start(naive, pool=pool, concurrency=1, env={"REFUSE": "bad"})
    site.send("i.sleep", "bad")
    site.journal.wait_count(1, "refused", LONG_SECONDS)
    site.send("i.sleep", "next")
    if naive:
        refuted(lambda: "next" in site.journal.finished())
        assert running(site.ask(worker)) == 1
        return
    site.journal.wait_finished("next", timeout=LONG_SECONDS)
    status = site.wait_status(worker, lambda status: running(status) == 0)
    assert status["slots"]["audited"] == 0


@pytest.mark.parametrize("naive", ["", "slots_by_task_id"], ids=["cured", "naive"])
def test_two_copies_of_one_task_take_two_slots_and_give_two_back(site, naive, refuted):
    """T10: a retry, and a redelivered copy, have the id of the task that they are copies of."""
    worker = site.start(naive, pool="threads", concurrency=2)
    site.block("i.until", "copy", task_id="same")
    site.journal.wait_started("copy")
    site.send("i.retrying", "again", 3, task_id="same")
    site.journal.wait_count(3, "retry", LONG_SECONDS)
    site.release()
    site.journal.wait_finished("copy", "again")
    if naive:
        refuted(lambda: running(site.ask(worker)) == 0)
        return
    status = site.wait_status(worker, lambda status: running(status) == 0)
    assert status["slots"]["audited"] == 0
    assert site.starts() == {"copy": 1, "again": 4}


@pytest.mark.parametrize("naive", ["", "audit_at_once"], ids=["cured", "naive"])
def test_the_audit_leaves_a_killed_child_the_time_to_be_reaped(site, naive, full):
    """T8: the pool reaps it at once, or when it next looks round, in up to five seconds."""
    worker = site.start(naive, pool="prefork", concurrency=2)
    audited = 0
    for number in range(20 if naive else 10 if full else 1):
        site.block("b.until", f"b{number}")
        site.journal.wait_started(f"b{number}")
        psutil.Process(site.journal.entries("start")[-1].pid).kill()
        audited = site.wait_status(worker, lambda now: running(now) == 0)["slots"]["audited"]
        if audited:
            break
    assert audited if naive else not audited


@pytest.mark.parametrize(
    ("broker", "pool", "naive"),
    [
        ("redis", "threads", ""),
        ("redis", "threads", "wake_nobody"),
        ("rabbitmq", "solo", ""),
        ("rabbitmq", "solo", "call_the_loop_later"),
    ],
    ids=["threads-cured", "threads-naive", "solo-cured", "solo-naive"],
    indirect=["broker"],
)
def test_a_freed_slot_wakes_the_loop(site, pool, naive):
    """S8, S18: else each slot idles until the loop looks up by itself, at the next tick."""
    worker = site.start(naive, pool=pool, concurrency=1, hoard=40, watched="ticks")
    # Let all be held, or unread in the socket, so that no arrival wakes the loop.
    site.block("b.until", "first")
    site.journal.wait_started("first")
    for number in range(40):
        site.send("b.sleep", f"b{number}")
    if pool == "threads":  # under solo nobody answers meanwhile
        site.wait_held(worker, "batch", 40)
    site.release()
    entries = site.journal.wait_count(41, timeout=LONG_SECONDS)
    first = next(at for at, entry in enumerate(entries) if entry.label == "b0")
    ticks = sum(entry.event == "tick" for entry in entries[first:])
    assert ticks > 20 if naive else ticks < 20
