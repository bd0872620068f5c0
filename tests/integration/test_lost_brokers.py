"""A broker that dies in the moment in which workers are asked keeps nobody waiting for ever."""

from __future__ import annotations

import logging
import time
from urllib.parse import urlsplit

import pytest
from celery import Celery
from kombu.transport import pyamqp, virtual

from celery_fair.cli import remote
from celery_fair.integrations.flower.watching import Watching
from celery_fair.observe.cluster import Cluster
from celery_fair.observe.listening import Listener, watch
from tests.brokers.proxy import Proxy
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
"""redis-py tries again for some seconds where a command is under way."""


@pytest.fixture
def way(broker):
    """The network to the broker, which may end."""
    way = Proxy(urlsplit(broker.url).port)
    yield way
    way.close()


@pytest.fixture
def app(broker, way):
    url = broker.url.replace(f":{urlsplit(broker.url).port}/", f":{way.port}/")
    app = Celery("asking", broker=url, set_as_current=False)
    yield app
    app.close()


@pytest.fixture
def died(way, monkeypatch):
    """When it died: as the first message was to be sent, over a connection that was good."""
    died = []

    def killing(prepare):
        def die_and_prepare(self, *args, **options):
            if not died:
                way.close()
                died.append(time.monotonic())
            return prepare(self, *args, **options)

        return die_and_prepare

    for channel in (pyamqp.Channel, virtual.Channel):
        monkeypatch.setattr(channel, "prepare_message", killing(channel.prepare_message))
    return died


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_question_ends_with_the_reason(app, died):
    with pytest.raises(remote.Unreachable, match="can't be reached"):
        remote.ask(app, "fair_status", timeout_seconds=1)
    assert time.monotonic() - died[0] < LONG_SECONDS


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_listener_says_so_once_and_ends_when_it_is_told_to(app, died, caplog):
    caplog.set_level(logging.WARNING, "celery_fair")
    listener = Listener(app, Cluster())
    listener.start()
    try:
        wait_until(lambda: listener.error, "an error", timeout=LONG_SECONDS)
        assert died
        assert not listener.is_connected
    finally:
        listener.stop()
        listener.join(LONG_SECONDS)
    assert not listener.is_alive()
    assert caplog.text.count("no events, the broker can't be reached") == 1


@pytest.mark.brokers("redis", "rabbitmq")
def test_who_looks_at_flower_is_told_by_a_warning(app, died, caplog):
    watching = Watching()
    watching.looked(app, 0.0)
    watching._saying.join(LONG_SECONDS)
    assert not watching._saying.is_alive()
    assert died
    assert "workers can't be asked to tell more" in caplog.text


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_connection_that_was_kept_and_cut_is_made_anew(app, way):
    """RabbitMQ closes one that was silent for two heartbeats, and some are set to a few seconds."""
    with app.connection_for_write() as kept:
        watch(app, kept)
        way.silence()
        way.heal(reset=True)
        watch(app, kept)
