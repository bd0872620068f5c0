"""What Redis has popped is in no key until the worker has noted it: a restart comes between."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.brokers.waiting import wait_until


@pytest.mark.parametrize(
    ("mode", "naive"),
    [("enforce", ""), ("enforce", "forget_the_unnoted"), ("observe", "")],
    ids=["cured", "naive", "observing"],
)
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_what_was_popped_when_the_broker_restarts_is_run(
    site, start_redis, refuted, full, pool, mode, naive
):
    """The worker reads the reply of its BRPOP, and finds no broker to note the message at.

    It is stopped while Redis answers and goes, as a busy one is for a moment.
    """
    if pool == "gevent" and not full:
        pytest.skip("another loop, the same channel: with --full")
    server = start_redis(append_only=True)
    site.use(server.url)
    # However slow the machine: no BRPOP ends by itself before the worker is stopped.
    conf = {"broker_transport_options": {"polling_interval": 60}}
    # However long it is stopped: no event is overdue then, which redis-py would try ten times to
    # send, for a minute, before the loop reads the replies.
    args = ("--without-heartbeat",)
    settings = {"mode": mode}
    worker = site.start(naive, pool=pool, concurrency=2, conf=conf, settings=settings, args=args)
    lanes = 2 if mode == "enforce" else 1
    wait_until(lambda: site.are_in_flight(worker, lanes), "each lane to have a BRPOP in flight")
    worker.send_signal(signal.SIGSTOP)
    site.send("i.late", "i")
    site.send("b.late", "b")
    assert site.ready("celery") + site.ready("celery.batch") + site.unacknowledged() == 2 - lanes
    server.stop()
    worker.send_signal(signal.SIGCONT)
    worker.wait_for_log("Cannot connect to redis", timeout=20)
    server.start()
    site.send("i.late", "after")
    site.journal.wait_finished("after", timeout=25)
    if naive:
        refuted(lambda: {"i", "b"} & set(site.starts()))
        return
    site.journal.wait_finished("i", "b")
    assert site.starts() == {"i": 1, "b": 1, "after": 1}


@pytest.mark.parametrize("naive", ["", "close_while_watched"], ids=["cured", "naive"])
def test_a_connection_that_a_child_has_inherited_does_not_hold_up_the_loop(
    site, redis_server, refuted, naive
):
    """Redis closes the idle connection of a shut lane, and a child still has its socket open.

    The next connection is given the same number, and epoll tells of both under it.
    """
    site.use(redis_server.url)
    worker = site.start(naive, pool="prefork", concurrency=2, settings={"reserve": 1})
    wait_until(lambda: site.are_in_flight(worker, 2), "both lanes to have a BRPOP in flight")
    before = _children(worker)
    next(iter(before)).kill()
    wait_until(lambda: len(_children(worker) - before) == 1, "a child that has the sockets too")
    site.block("i.until", "i0", "i1")
    site.journal.wait_started("i0", "i1")
    site.wait_status(worker, lambda status: status["kinds"]["batch"]["credit"] == 0)
    site.cut_idle_pops(worker)
    site.release()
    site.journal.wait_finished("i0", "i1")
    for number in range(10):
        site.send("b.late", f"b{number}")
    if naive:
        refuted(lambda: len(site.journal.finished()) == 12)
        return
    site.journal.wait_finished(*(f"b{number}" for number in range(10)))


def _children(worker) -> set[psutil.Process]:
    return set(psutil.Process(worker.pid).children())
