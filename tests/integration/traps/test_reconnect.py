"""Over reconnects nothing doubles and nothing dies."""

from __future__ import annotations

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    ("pool", "reconnects", "naive"),
    [("threads", 10, ""), ("gevent", 3, ""), ("gevent", 3, "leave_the_timer")],
    ids=["threads", "gevent", "gevent-naive"],
)
def test_reconnects_leave_one_timer_and_one_pop_a_lane(site, pool, reconnects, naive):
    """S12: a step that starts something at each connection must stop it at each loss.

    Where there is an event loop Celery 5.7 ends the timers of a lost connection by itself. Those
    of gevent return something that ends nothing.
    """
    worker = site.start(naive, pool=pool, concurrency=2)
    # At a tick the greenlet that ends and the next one are both there.
    wait_until(lambda: _probe(site, worker)["timers"] == 1, "one timer")
    for number in range(reconnects):
        site.reconnect(worker)
        _run_both(site, number)
    timers = 1 + reconnects if naive else 1
    wait_until(lambda: site.ask(worker, "fair_probe")["timers"] == timers, f"{timers} timers")
    after = _probe(site, worker)
    assert after["restarts"] == reconnects
    # A late acknowledgement, which ends a task for the broker, comes before its slot is free.
    wait_until(lambda: site.ask(worker, "fair_probe")["slots_in_use"] == 0, "no slot in use")
    assert site.starts() == {f"{kind}{number}": 1 for kind in "ib" for number in range(reconnects)}


def test_a_reconnect_leaves_nothing_in_the_loop_though_kombu_does(site):
    """S12: callbacks in ``hub.on_tick`` run at each turn of the loop, for ever.

    kombu leaves one for each connection to Redis, and with it all of the lost connection.
    """
    grown = {}
    for enabled in (True, False):
        name = f"{enabled}@test"
        worker = site.start(pool="threads", settings={"enabled": enabled}, hostname=name)
        before = site.ask(worker, "fair_probe")["on_tick"]
        for _ in range(3):
            site.reconnect(worker)
        grown[enabled] = site.ask(worker, "fair_probe")["on_tick"] - before
        worker.stop()
    assert grown[True] == 0
    assert grown[False] == 3, "if kombu has mended it, internals.forget_pollers may go"


def _probe(site, worker):
    """The worker's probe once both lanes wait for messages."""
    wait_until(lambda: site.pops(worker) == 2, "a BRPOP a lane", timeout=LONG_SECONDS)
    return site.ask(worker, "fair_probe")


def _run_both(site, number):
    site.send("i.late", f"i{number}")
    site.send("b.late", f"b{number}")
    site.journal.wait_finished(f"i{number}", f"b{number}", timeout=LONG_SECONDS)
    wait_until(lambda: site.unacknowledged() == 0, "both to be acknowledged, and not redelivered")
