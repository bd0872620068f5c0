"""What ends while a worker stops warmly is counted, logged and told like all else."""

from __future__ import annotations

import pytest

from tests.apps import watched
from tests.integration.contract.site import publish
from tests.integration.test_observers import APP, LOG, lines


@pytest.fixture
def app(broker):
    app = watched.make_app(broker)
    yield app
    app.close()


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
@pytest.mark.brokers("redis")
def test_the_last_tasks_of_a_worker_are_in_its_log(pool, start_worker, app, journal):
    env = {**LOG, "CELERY_FAIR__RESERVE": "0"}
    worker = start_worker(APP, pool=pool, concurrency=2, env=env)
    last = ["last1", "last2"] if pool != "solo" else ["last1"]
    publish(app, "b.sleep", ["first"])
    journal.wait_finished("first")
    publish(app, "b.sleep", last, 1.0)
    journal.wait_started(*last)
    worker.stop()
    assert set(journal.finished()) == {"first", *last}
    assert len(lines(worker, "task")) == 1 + len(last), worker.log_text()
