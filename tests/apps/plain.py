"""A Celery app without celery-fair, whose tasks journal what they do.

A worker runs it as ``-A tests.apps.plain`` with BROKER, BROKER_OPTIONS, BACKEND and JOURNAL in
its environment; a test makes its own with ``make_app(broker)``.
"""

from __future__ import annotations

import functools
import os
import time

from celery import Celery

from tests.brokers.broker import Broker
from tests.nodes.journal import recorded


def make_app(broker: Broker, **conf: object) -> Celery:
    """A new app on ``broker`` with the tasks below."""
    app = Celery("plain", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(broker_connection_retry_on_startup=True, **conf)
    add_tasks(app)
    return app


def add_tasks(app: Celery) -> None:
    """Register the tasks; each takes a label that names its entries in the journal."""
    # Not shared: Celery would add a task of this app to every other app in the process.
    task = functools.partial(app.task, bind=True, shared=False)

    @task(name="noop")
    def noop(self, label="noop"):
        with recorded(self, label):
            return label

    @task(name="sleeper")
    def sleeper(self, label, seconds):
        with recorded(self, label):
            time.sleep(seconds)
            return label

    @task(name="late", acks_late=True, reject_on_worker_lost=True)
    def late(self, label, seconds=0.0):
        with recorded(self, label):
            time.sleep(seconds)
            return label

    @task(name="retrying", max_retries=10)
    def retrying(self, label, times=1, countdown=0.0):
        with recorded(self, label):
            if self.request.retries < times:
                raise self.retry(countdown=countdown)
            return self.request.retries

    @task(name="failing")
    def failing(self, label="failing"):
        with recorded(self, label):
            raise ValueError(label)


app = make_app(Broker.from_environ(os.environ))
