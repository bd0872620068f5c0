"""Batch tasks without end until they have yielded, and interactive ones that make them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable
from pathlib import Path

from celery import Celery

from celery_fair import Fair
from celery_fair.yielding.words import HEADER
from tests.brokers.broker import Broker
from tests.nodes.journal import VARIABLE, Journal, record

ITEM_SECONDS = float(os.environ.get("ITEM_SECONDS", "0.02"))
ITEMS_AFTER = 5
"""So many more are done by the run that ends."""


def make_app(broker: Broker) -> Celery:
    """A new app on ``broker``; half the slots and no reserve, so that nobody is spared."""
    app = Celery("giving_way", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(broker_connection_retry_on_startup=True)
    app.conf.worker_pool_start_method = os.environ.get("START_METHOD", "fork")
    fair = Fair(app, kinds={"b.*": "batch", "i.*": "interactive"}, reserve=0, yield_min_seconds=0.1)
    _add(app, fair)
    return app


def _add(app: Celery, fair: Fair) -> None:
    def keep_on(task, label, others):
        """Do items until they have been gone on with, as `HEADER` tells; the last and their sum.

        Then those of the ``others`` must have been too: else this one would leave them a free slot.
        """
        request, goes_on = task.request, HEADER in (task.request.headers or {})
        said = {name: getattr(request, name) for name in KEPT}
        total, first = fair.saved(default=0), None
        record("start", label, task, retries=request.retries, **said)
        for number in fair.yielding(itertools.count(), state=lambda: total):  # noqa: B023
            first = number if first is None else first
            record("item", f"{label}{number}", task)
            time.sleep(ITEM_SECONDS)
            total += number
            if goes_on and number >= first + ITEMS_AFTER and _have_begun_twice(others):
                found = {"last": number, "total": total, "retries": request.retries}
                record("finish", label, task, **found)
                return found
        return None

    @app.task(name="b.loop", bind=True, shared=False, acks_late=True, time_limit=100)
    def loop(self, label, others=()):
        return keep_on(self, label, others)

    @app.task(name="b.failing", bind=True, shared=False, max_retries=3, autoretry_for=(OSError,))
    def failing(self, label, others=()):
        found = keep_on(self, label, others)
        if self.request.retries == 0:
            raise self.retry(countdown=0)
        return found

    @app.task(name="b.all", shared=False)
    def collected(found):
        return found

    @app.task(name="i.quick", bind=True, shared=False)
    def quick(self, label):
        record("start", label, self)


def _have_begun_twice(labels: Iterable[str]) -> bool:
    started = Journal(Path(os.environ[VARIABLE])).started()
    return all(started.count(label) > 1 for label in labels)


KEPT = ("root_id", "parent_id", "group", "timelimit", "reply_to")
"""What a continuation has of its request."""


if "BROKER" in os.environ:
    app = make_app(Broker.from_environ(os.environ))
