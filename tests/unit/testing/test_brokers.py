"""What an app under test is told of its broker: nothing of production's is left."""

from __future__ import annotations

import pytest

from celery_fair.testing.brokers import TestBroker


@pytest.mark.parametrize("url", ["redis://localhost", "amqp://localhost", "memory://"])
def test_what_an_app_says_of_its_own_broker_holds_for_no_other(url):
    conf = TestBroker("a broker", url, False).conf()
    assert conf["broker_url"] == url
    assert (conf["broker_read_url"], conf["broker_write_url"]) == (None, None)
    assert (conf["broker_use_ssl"], conf["redis_backend_use_ssl"]) == (False, False)


@pytest.mark.parametrize("url", ["rediss://localhost", "amqps://localhost"])
def test_a_broker_by_tls_is_reached_as_the_app_says(url):
    conf = TestBroker("a broker", url, False).conf()
    assert not {"broker_use_ssl", "redis_backend_use_ssl"}.intersection(conf)
