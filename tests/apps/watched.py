"""``tests.apps.mixed`` with observers that write down what they are told, and one that fails.

Tasks take a secret as an argument and return it, or raise it; what is shown must not have it.
"""

from __future__ import annotations

import os

from celery import Celery
from celery.exceptions import Reject

from celery_fair import Fair, Observer
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.nodes.journal import record


class Journaling(Observer):
    """Writes each call of a hook into the journal."""

    def _write(self, hook, task):
        record(f"observed.{hook}", task.id, **{**task._asdict(), "wait": task.wait_seconds})

    def queued(self, task):
        self._write("queued", task)

    def held(self, task):
        self._write("held", task)

    def dispatched(self, task):
        self._write("dispatched", task)

    def finished(self, task):
        self._write("finished", task)

    def dropped(self, task):
        self._write("dropped", task)

    def given_back(self, task):
        self._write("given_back", task)

    def mode_changed(self, change):
        record("observed.mode_changed", change.mode, **change._asdict())


class Failing(Observer):
    """Fails at every hook it has."""

    def held(self, task):
        raise ValueError("an observer's own trouble")

    def finished(self, task):
        raise SystemExit(7)


def make_app(broker: Broker, **conf: object) -> Celery:
    """As ``mixed.make_app``, with the tasks below."""
    app = mixed.make_app(broker, **conf)
    app.conf.update(result_extended=True, worker_send_task_events=True)

    @app.task(name="b.secret", shared=False)
    def secret(word, *, also):
        return [word, also]

    @app.task(name="i.secret", shared=False)
    def failing(word, *, also):
        raise ValueError(word, also)

    @app.task(name="b.rejecting", shared=False, acks_late=True)
    def rejecting(word):
        raise Reject(word)

    return app


app = make_app(Broker.from_environ(os.environ)) if "BROKER" in os.environ else None
if app is not None:
    fair = Fair.of(app)
    fair.add_observer(Failing())
    fair.add_observer(Journaling())
