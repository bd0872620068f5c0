"""What a review of the worker layer found: each once ended a worker, held up its loop or lied."""

from __future__ import annotations

import socket
import time

import pytest
from celery import Celery
from kombu import Connection, Exchange, Queue
from kombu.utils import functional

from celery_fair.worker import internals
from celery_fair.worker.links import RedisLink
from celery_fair.worker.sensor import Sensor
from tests.apps import mixed
from tests.brokers.waiting import wait_until


@pytest.fixture
def app(broker) -> Celery:
    app = mixed.make_app(broker)
    yield app
    app.close()


def _exists(app, queue) -> bool:
    with app.connection_for_write() as connection:
        try:
            connection.default_channel.queue_declare(queue, passive=True)
        except connection.channel_errors:
            return False
    return True


@pytest.mark.brokers("rabbitmq")
def test_a_queue_deleted_while_its_lane_is_shut_is_declared_and_consumed_again(
    app, start_worker, journal
):
    worker = start_worker("tests.apps.mixed", pool="threads", concurrency=1)
    app.tasks["b.sleep"].delay("holds the slot", 2.0)
    journal.wait_started("holds the slot")
    with app.connection_for_write() as connection:
        connection.default_channel.queue_delete(mixed.BATCH_QUEUE)
    journal.wait_finished("holds the slot")
    worker.wait_for_log("Connection to broker lost", timeout=20)
    wait_until(lambda: _exists(app, mixed.BATCH_QUEUE), "the queue to be declared again")
    app.tasks["b.sleep"].delay("after")
    journal.wait_finished("after", timeout=30)
    assert worker.running


@pytest.mark.brokers("redis")
def test_a_word_of_nonsense_in_the_fleet_ends_no_worker(app, start_worker, journal):
    worker = start_worker("tests.apps.mixed", pool="threads", concurrency=1)
    with app.connection_for_write() as connection:
        redis = connection.default_channel.client
        wait_until(lambda: redis.hlen("_celery_fair.members"), "the worker to speak")
        redis.hset("_celery_fair.members", "other@host", '{"queues": null, "slots": null}')
        own = redis.hget("_celery_fair.members", worker.hostname).decode()
        redis.hset("_celery_fair.members", "third@host", own.replace('"slots": 1', '"slots": null'))
        said = redis.hget("_celery_fair.members", worker.hostname)
        wait_until(
            lambda: redis.hget("_celery_fair.members", worker.hostname) != said,
            "the worker to have heard it and to speak again",
        )
    app.tasks["i.sleep"].delay("after")
    journal.wait_finished("after")


def test_a_sensor_that_cannot_connect_does_not_sleep_on_the_loop(monkeypatch):
    """As kombu's own way to connect does, twice for a second."""
    slept = []
    monkeypatch.setattr(functional, "sleep", slept.append)
    monkeypatch.setattr(time, "sleep", slept.append)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        app = Celery("nowhere", broker=f"redis://127.0.0.1:{port}/0", set_as_current=False)
        sensor = Sensor(lambda: RedisLink(app), 0.25)
        sensor.tick(["celery"], time.monotonic(), urgent=True, member=None)
        assert sensor.failures == 1
        assert not slept


@pytest.mark.brokers("redis")
def test_a_message_that_would_come_back_to_two_queues_is_not_given_back(broker):
    exchange = Exchange("news", type="topic")
    queues = [Queue(name, exchange, routing_key="all.#") for name in ("a", "b")]
    with Connection(broker.url) as connection:
        channel = connection.default_channel
        for queue in queues:
            queue(channel).declare()
        connection.Producer(exchange=exchange).publish({}, routing_key="all.of.it")
        assert not internals.goes_back_alone(queues[0](channel).get())
        connection.Producer().publish({}, routing_key="alone")
        assert internals.goes_back_alone(Queue("alone")(channel).get())
