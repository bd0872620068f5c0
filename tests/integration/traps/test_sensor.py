"""The sensor reads queues without a cost to the loop, and without leaving anything behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from kombu import Queue

from celery_fair.worker.links import Link, link_type
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
TICKS = 20


@pytest.fixture
def link(site) -> Iterator[Link]:
    """A link of the sensor to the test's broker."""
    link = link_type(site.app.connection_for_read())(site.app)
    yield link
    link.close()


def read(link, *queues):
    """What the link counts, as ``{queue: messages}``."""
    link.ask(queues, None)
    return dict(wait_until(lambda: link.receive(1.0), "an answer").ready)


@pytest.mark.brokers("redis", "rabbitmq")
def test_an_empty_or_missing_queue_counts_as_empty(site, link):
    """S5: a passive declare of either may be a 404, which closes the channel."""
    site.send("b.late", "b")
    queues = ("missing", "celery.batch", "missing too")
    assert read(link, *queues) == {"missing": 0, "celery.batch": 1, "missing too": 0}
    site.take_all("celery.batch")
    assert read(link, *queues) == dict.fromkeys(queues, 0)
    with site.app.connection_for_read() as connection:
        Queue("celery.batch")(connection.default_channel).delete()
    assert read(link, *queues) == dict.fromkeys(queues, 0)


def test_redis_answers_a_passive_declare_of_an_empty_queue_with_an_error(site):
    """S5 without its cure: what one would ask first."""
    with site.app.connection_for_read() as connection:
        channel = connection.channel()
        with pytest.raises(connection.channel_errors, match="404"):
            Queue("celery.batch")(channel).queue_declare(passive=True)


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_thousand_reads_open_no_channel(site, link):
    """S5: one a read would add up to the broker's limit."""
    site.send("b.late", "b")
    read(link, "celery.batch", "missing")
    channels = set(link.connection.connection.channels)
    for _ in range(1000):
        read(link, "celery.batch")
    for _ in range(20):
        read(link, "missing", "celery.batch")
    assert set(link.connection.connection.channels) == channels


@pytest.mark.parametrize("naive", ["", "read_on_the_workers_connection"], ids=["cured", "naive"])
def test_the_loop_goes_on_while_the_broker_says_nothing(site, naive, redis_server, refuted):
    """S6: on the worker's own connection a read waits as long as the broker does."""
    site.use(redis_server.url)
    site.start(naive, concurrency=2, watched="ticks", args=["--without-heartbeat"])
    site.journal.wait_count(TICKS, "tick")
    redis_server.send_signal(signal.SIGSTOP)
    try:
        before = len(site.journal.labels("tick"))
        if naive:
            refuted(lambda: len(site.journal.labels("tick")) >= before + TICKS, seconds=4)
        else:
            site.journal.wait_count(before + TICKS, "tick", LONG_SECONDS)
    finally:
        redis_server.send_signal(signal.SIGCONT)
    site.send("b.sleep", "after")
    site.journal.wait_finished("after", timeout=LONG_SECONDS)


@pytest.mark.parametrize("naive", ["", "ask_the_settings"], ids=["cured", "naive"])
def test_no_setting_is_looked_up_for_a_message(site, naive):
    """S7: a look costs more than all else that a lane does, and each turn of the loop asks it."""
    worker = site.start(naive, concurrency=2, watched="conf")
    site.send("i.sleep", "first")
    site.journal.wait_finished("first")
    site.ask(worker)
    before = len(site.journal.labels("looked_up"))
    for number in range(50):
        site.send("i.sleep", f"i{number}")
        site.send("b.sleep", f"b{number}")
    site.journal.wait_count(101, timeout=LONG_SECONDS)
    looked_up = site.journal.labels("looked_up")[before:]
    assert len(looked_up) > 50 if naive else not looked_up
