"""The tasks of ``tests.apps.plain`` in two kinds, under celery-fair.

``i.NAME`` is interactive and ``b.NAME`` is batch. Settings come from the test's environment, as
``CELERY_FAIR__<NAME>``; Celery's own from CELERY_CONF, a JSON object.
"""

from __future__ import annotations

import functools
import json
import os
import time

from celery import Celery

from celery_fair import Fair
from tests.apps import plain
from tests.brokers.broker import Broker
from tests.nodes.journal import recorded

INTERACTIVE_QUEUE = "celery"
BATCH_QUEUE = "celery.batch"


def make_app(broker: Broker, **conf: object) -> Celery:
    """A new app on ``broker`` with a Fair and the tasks below."""
    app = Celery("mixed", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(
        broker_connection_retry_on_startup=True,
        **{**json.loads(os.environ.get("CELERY_CONF", "{}")), **conf},
    )
    Fair(app, kinds={"i.*": "interactive", "b.*": "batch"})
    plain.add_tasks(app)
    add_tasks(app)
    return app


def add_tasks(app: Celery) -> None:
    """Register an interactive and a batch form of each task."""
    task = functools.partial(app.task, bind=True, shared=False)

    for prefix in ("i", "b"):

        @task(name=f"{prefix}.sleep")
        def sleep(self, label, seconds=0.0):
            with recorded(self, label):
                time.sleep(seconds)

        @task(name=f"{prefix}.late", acks_late=True)
        def late(self, label, seconds=0.0):
            with recorded(self, label):
                time.sleep(seconds)

        @task(name=f"{prefix}.limited", rate_limit="6/m")
        def limited(self, label):
            with recorded(self, label):
                pass

        @task(name=f"{prefix}.retrying", max_retries=10)
        def retrying(self, label, times=1, countdown=0.0):
            with recorded(self, label):
                if self.request.retries < times:
                    raise self.retry(countdown=countdown)

        for name, late in (("until", False), ("late_until", True)):

            @task(name=f"{prefix}.{name}", acks_late=late)
            def until(self, label, path):
                """Until a file is there."""
                with recorded(self, label):
                    while not os.path.exists(path):
                        time.sleep(0.02)


def calm() -> float:
    """A load probe of an engine that has little to do."""
    return 0.1


app = make_app(Broker.from_environ(os.environ)) if "BROKER" in os.environ else None
