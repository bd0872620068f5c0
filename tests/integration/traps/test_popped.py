"""What Redis has popped is in no key until the worker has noted it: a restart comes between."""

from __future__ import annotations

import signal

import pytest

from tests.brokers.waiting import wait_until


@pytest.mark.parametrize("naive", ["", "forget_the_unnoted"], ids=["cured", "naive"])
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_what_was_popped_when_the_broker_restarts_is_run(
    site, start_redis, refuted, full, pool, naive
):
    """The worker reads the reply of its BRPOP, and finds no broker to note the message at.

    It is stopped while Redis answers and goes, as a busy one is for a moment.
    """
    if pool == "gevent" and not full:
        pytest.skip("another loop, the same channel: with --full")
    server = start_redis(append_only=True)
    site.use(server.url)
    worker = site.start(naive, pool=pool, concurrency=2)
    wait_until(lambda: site.pops(worker) == 2, "both lanes to have a BRPOP in flight")
    worker.send_signal(signal.SIGSTOP)
    site.send("i.late", "i")
    site.send("b.late", "b")
    assert site.ready("celery") + site.ready("celery.batch") + site.unacknowledged() == 0
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
