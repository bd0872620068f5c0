"""``tests.apps.mixed`` with batch tasks that end in unusual ways."""

from __future__ import annotations

import os
import signal

from celery import Celery

from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.nodes.journal import recorded


def make_app(broker: Broker, **conf: object) -> Celery:
    """As ``mixed.make_app``, with the tasks below."""
    app = mixed.make_app(broker, **conf)
    add_tasks(app)
    return app


def add_tasks(app: Celery) -> None:
    @app.task(name="b.exiting", bind=True, shared=False)
    def exiting(self, label):
        with recorded(self, label):
            raise SystemExit(3)

    @app.task(name="b.dying", bind=True, shared=False)
    def dying(self, label):
        with recorded(self, label):
            os.kill(os.getpid(), signal.SIGKILL)

    @app.task(name="b.failing", bind=True, shared=False)
    def failing(self, label):
        with recorded(self, label):
            raise ValueError(label)


app = make_app(Broker.from_environ(os.environ)) if "BROKER" in os.environ else None
