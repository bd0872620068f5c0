"""Messages held while their lane is shut go back in time, in order, and to one who may run them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kombu import Connection, Queue

from celery_fair.policy import Policy
from celery_fair.policy.kinds import BATCH
from celery_fair.policy.settings import PolicySettings
from celery_fair.worker import internals
from celery_fair.worker.amqp_windows import AmqpWindow
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.lanes import Lane
from celery_fair.worker.pools import Pool
from celery_fair.worker.windows import RedisWindow
from tests.apps import kept
from tests.brokers.waiting import wait_until

LONG_SECONDS = 30.0
TIMEOUT_SECONDS = 3
HELD = 4


def impatient(site, seconds=TIMEOUT_SECONDS):
    """A broker that gives out again what isn't acknowledged for so long."""
    options = {
        "visibility_timeout": seconds,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }
    site.broker = replace(site.broker, transport_options=options)
    site.app.conf.update(site.broker.conf())


def fill(site, *workers, slots=2):
    """Take every slot of these workers with interactive tasks, until ``release``."""
    labels = [f"blocker{number}" for number in range(slots * len(workers))]
    site.block("i.until", *labels)
    site.journal.wait_started(*labels, timeout=LONG_SECONDS)


def given_back(site, worker):
    return site.ask(worker)["kinds"]["batch"]["given_back"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("naive", ["", "hold_without_bound"], ids=["cured", "naive"])
def test_what_is_held_goes_back_before_the_visibility_timeout(site, naive, full):
    """T11, D1: else a second copy is given out, though ``hold_max_seconds`` is 30 and not over."""
    patience = 10 if full else TIMEOUT_SECONDS
    impatient(site, patience)
    worker = site.start(naive, concurrency=2, hoard=HELD)
    fill(site, worker)
    labels = [f"b{number}" for number in range(20 if full else HELD)]
    for label in labels:
        site.send("b.late", label)
    if naive:
        others = len(labels) - HELD  # which wait there in any case
        wait_until(lambda: site.ready("celery.batch") == others, "the rest to be held")
        wait_until(
            lambda: site.ready("celery.batch") > others, "second copies", timeout=LONG_SECONDS
        )
    else:  # each goes back at half of the timeout; after the first four, one at a time or more
        rounds = 8 if full else 4
        site.wait_status(
            worker,
            lambda now: now["kinds"]["batch"]["given_back"] >= HELD + rounds,
            timeout=rounds * patience / 2 + LONG_SECONDS,
        )
    site.release()
    site.journal.wait_finished(*labels, timeout=LONG_SECONDS)
    if naive:
        wait_until(
            lambda: max(site.starts().values()) > 1,
            "a second copy to run",
            timeout=patience + LONG_SECONDS,
        )
        return
    wait_until(lambda: site.unacknowledged() == 0, "all to be acknowledged", timeout=LONG_SECONDS)
    starts = site.starts()
    assert {label: starts[label] for label in labels} == dict.fromkeys(labels, 1)


@pytest.fixture
def impatient_rabbitmq(shared_rabbitmq):
    """Channels that are opened meanwhile are closed when they owe an ack for so long."""

    def be(timeout_seconds, tick_seconds):
        for name, seconds in (
            ("consumer_timeout", timeout_seconds),
            ("channel_tick_interval", tick_seconds),
        ):
            shared_rabbitmq.ctl("eval", f"application:set_env(rabbit, {name}, {1000 * seconds}).")

    be(kept.PATIENCE_SECONDS, 1)
    yield
    be(1800, 60)


@pytest.mark.brokers("rabbitmq")
@pytest.mark.parametrize("naive", ["", "never_to_a_quorum_queue"], ids=["cured", "naive"])
@pytest.mark.usefixtures("impatient_rabbitmq")
def test_what_counts_its_deliveries_goes_back_before_the_consumer_timeout(site, naive):
    """T11, T15: later, RabbitMQ closes the channel, which counts too, and ends the worker."""
    site.app.conf.update(kept.conf("impatient"))
    worker = site.start(
        naive, app="tests.apps.kept", concurrency=2, hoard=HELD, env={"KEPT": "impatient"}
    )
    fill(site, worker)
    labels = [f"b{number}" for number in range(HELD)]
    for label in labels:
        site.send("b.sleep", label)
    if naive:
        worker.wait_for_log("Unrecoverable error: PreconditionFailed", timeout=LONG_SECONDS)
        return
    site.wait_status(worker, lambda now: now["kinds"]["batch"]["given_back"] >= 3 * HELD)
    site.release()
    site.journal.wait_finished(*labels, timeout=LONG_SECONDS)
    assert {label: site.starts()[label] for label in labels} == dict.fromkeys(labels, 1)


class Request:
    """What a lane needs of a request."""

    def __init__(self, message) -> None:
        self.id = message.headers["id"]
        self._message = message
        self.acknowledged = False


@pytest.mark.brokers("redis", "rabbitmq")
def test_what_goes_back_together_keeps_its_order_and_its_place(site):
    """T12: on Redis each goes to the front, so that the youngest has to be the first of them."""
    labels = [f"b{number}" for number in range(6)]
    results = [site.send("b.late", label) for label in labels]
    dispatcher = Dispatcher(
        Policy(PolicySettings(), slots=1, now=0.0), Pool(None), print, print, lambda queue: BATCH
    )
    lane = Lane(BATCH, 0.0, 1)
    with Connection(site.broker.url) as connection:
        channel = connection.channel()
        consumer = connection.Consumer([Queue("celery.batch")], channel=channel, auto_declare=False)
        window = (RedisWindow if site.broker.name == "redis" else AmqpWindow)(lane, consumer)
        dispatcher.lanes, dispatcher.windows = {BATCH: lane}, {BATCH: window}
        for number in range(4):
            message = channel.message_to_python(channel.basic_get("celery.batch"))
            lane.hold(Request(message), float(number), None, 0.0)
        dispatcher.give_back_overdue(0.0)
        assert dispatcher.giving_back.counts[BATCH] == 4
        assert internals.active_queues(consumer) == []
    wait_until(lambda: site.ready("celery.batch") == 6, "all to be back")
    assert site.take_all("celery.batch") == [result.id for result in results]


@pytest.mark.parametrize(
    ("broker", "naive"),
    [("redis", ""), ("redis", "go_round"), ("rabbitmq", "")],
    ids=["redis-cured", "redis-naive", "rabbitmq-cured"],
    indirect=["broker"],
)
def test_what_nobody_can_run_stays_where_it_is_until_somebody_can(site, naive, full):
    """E6: it doesn't go round between workers that are busy, nor back and forth.

    Once another is free it goes there soon, though ``hold_max_seconds`` is far away.
    """
    holder = site.start(naive, concurrency=1, watched="returns")
    fill(site, holder, slots=1)
    other = site.start(naive, concurrency=1, watched="returns")
    site.send("i.until", "other", str(site.folder / "release other"))
    site.journal.wait_started("other", timeout=LONG_SECONDS)
    site.wait_status(holder, lambda status: status["fleet"]["workers"] == 2)
    site.send("b.late", "b")
    wait_until(
        lambda: site.held(holder, "batch") + site.held(other, "batch"),
        "one of them to hold it, since it is owed to batch",
        timeout=LONG_SECONDS,
    )
    if naive:
        wait_until(lambda: len(site.journal.labels("returned")) > 3, timeout=LONG_SECONDS)
        return
    reads = site.ask(holder)["sensor"]["reads"] + (60 if full else 6)
    # At least one a second: long past the second after which it might have gone back.
    site.wait_status(holder, lambda status: status["sensor"]["reads"] >= reads, 2 * LONG_SECONDS)
    assert len(site.journal.labels("returned")) <= 2
    (site.folder / "release other").touch()
    site.journal.wait_finished("b", timeout=LONG_SECONDS)
    assert site.starts()["b"] == 1


def test_a_visibility_timeout_that_is_too_short_is_named_with_both_numbers(site, full):
    """D2: at the start for a time limit, and once for the first run that outlasts it.

    Solo's loop sees a long run only when it has ended.
    """
    impatient(site, 1)
    worker = site.start(
        pool="solo" if full else "threads", concurrency=1, conf={"task_time_limit": 77}
    )
    assert "F003: a time limit of 77 s does not fit into the visibility_timeout of 1 s" in (
        worker.log_text()
    )
    site.send("b.sleep", "acknowledged early", 1.2)
    site.journal.wait_finished("acknowledged early")
    site.send("i.sleep", "and noted", 0.0)
    site.journal.wait_finished("and noted")
    assert "has run for" not in worker.log_text()
    for label in ("first", "second"):
        site.send("b.late", label, 1.2)
    site.journal.wait_finished("first", "second", timeout=LONG_SECONDS)
    worker.wait_for_log("b.late has run for 1 s, longer than the visibility_timeout of 1 s")
    site.send("i.sleep", "last", 0.0)
    site.journal.wait_finished("last", timeout=LONG_SECONDS)
    assert worker.log_text().count("has run for") == 1
