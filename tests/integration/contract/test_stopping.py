"""What reaches a worker while it stops is not lost: the next one runs it."""

from __future__ import annotations

from collections import Counter

import kombu
import pytest

from celery_fair.policy.kinds import BATCH, INTERACTIVE
from celery_fair.worker.consumer import LaneConsumer
from celery_fair.worker.lanes import Lane
from celery_fair.worker.windows import RedisWindow
from tests.apps import mixed
from tests.integration.contract.site import labels, publish


@pytest.fixture
def app(broker):
    app = mixed.make_app(broker)
    yield app
    app.close()


@pytest.mark.parametrize("kind", [INTERACTIVE, BATCH])
def test_what_a_fetch_under_way_has_taken_is_back_in_its_queue_after_the_end(kind, redis_url):
    """Over one connection, whose default channel kombu closes before the others."""
    queues = {INTERACTIVE: "celery", BATCH: "celery.batch"}
    with kombu.Connection(redis_url) as connection, kombu.Connection(redis_url) as other:
        channels = {INTERACTIVE: connection.default_channel, BATCH: connection.channel()}
        parts, windows, held = {}, {}, []
        for each, channel in channels.items():
            part = kombu.Consumer(channel, [kombu.Queue(queues[each])], on_message=held.append)
            lane = Lane(each, 0.0, 1000)
            lane.grant(1, 0.0)
            parts[each], windows[each] = part, RedisWindow(lane, part)
        kinds = {queue: each for each, queue in queues.items()}
        consumer = LaneConsumer(parts, windows, kinds.get, list)
        consumer.consume()
        connection.transport.cycle._register_BRPOP(channels[kind])
        other.SimpleQueue(queues[kind]).put("a message")
        consumer.cancel()
        connection.close()
        assert other.default_channel._size(queues[kind]) == 1
        assert len(held) == 1


@pytest.mark.parametrize("pool", ["gevent"])
@pytest.mark.brokers("redis")
def test_what_is_fetched_after_the_signal_is_run_by_the_next_worker(
    pool, start_worker, app, journal
):
    """Each lane has a fetch under way, whose answer comes when nobody looks any more."""
    everything = [*labels("b", 60), *labels("i", 60)]
    publish(app, "b.sleep", labels("b", 60), 0.05)
    publish(app, "i.sleep", labels("i", 60), 0.05)
    worker = start_worker("tests.apps.mixed", pool=pool, concurrency=2)
    for stop in range(1, 4):
        journal.wait_count(12 * stop, timeout=20)
        assert worker.stop(30) == 0
        assert journal.running() == []
        worker.start()
    journal.wait_finished(*everything, timeout=30)
    assert set(Counter(journal.started()).values()) == {1}
