"""A listener whose broker is not there says so, once, and can be ended."""

from __future__ import annotations

import pytest
from celery import Celery

from celery_fair.observe.cluster import Cluster
from celery_fair.observe.listening import Listener
from tests.brokers.process import free_port
from tests.brokers.waiting import wait_until


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_was_never_there_is_said_once(scheme, caplog):
    app = Celery("nobody", broker=f"{scheme}://127.0.0.1:{free_port()}//", set_as_current=False)
    listener = Listener(app, Cluster())
    assert not listener.is_connected
    listener.start()
    try:
        wait_until(lambda: listener.error, "an error")
        assert not listener.is_connected
    finally:
        listener.stop()
        listener.join(10)
    assert not listener.is_alive()
    (said,) = [record for record in caplog.records if record.name.startswith("celery_fair")]
    assert "no events, the broker can't be reached" in said.getMessage()
    assert "refused" in said.getMessage()
