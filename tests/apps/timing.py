"""``tests.apps.mixed`` with tasks that tell, in the journal, of everything that fails them."""

from __future__ import annotations

import os

from celery import Celery, Task, signals

from celery_fair.options import known_timeout
from tests.apps import mixed
from tests.brokers.broker import Broker
from tests.nodes.journal import record, recorded


class Telling(Task):
    """A base of a team's own, whose hook looks at the request as hooks do."""

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        record("on_failure", args[0], self, error=type(exc).__name__)


def make_app(broker: Broker, **conf: object) -> Celery:
    """As ``mixed.make_app``, with the tasks below."""
    app = mixed.make_app(broker, **conf)
    add_tasks(app)
    return app


def add_tasks(app: Celery) -> None:
    """``i.hasty`` and ``b.hasty`` wait for half a second at the most, whatever the settings say."""
    for prefix in ("i", "b"):

        @app.task(name=f"{prefix}.told", bind=True, shared=False, base=Telling)
        def told(self, label):
            with recorded(self, label):
                return label

        @app.task(
            name=f"{prefix}.hasty", bind=True, shared=False, fair_timeout_seconds=known_timeout(0.5)
        )
        def hasty(self, label):
            with recorded(self, label):
                return label

    @app.task(name="i.published_errback", bind=True, shared=False)
    def published_errback(self, failed_id):
        record("published_errback", failed_id, self)

    @app.task(name="i.called_errback", shared=False)
    def called_errback(request, exc, traceback):
        """Celery calls one with these arguments where the failure is, and publishes nothing."""
        record("called_errback", request.id, error=type(exc).__name__)

    @signals.task_failure.connect(weak=False)
    def failed(sender, task_id, exception, **_):
        record("task_failure", task_id, error=type(exception).__name__)


app = make_app(Broker.from_environ(os.environ)) if "BROKER" in os.environ else None
