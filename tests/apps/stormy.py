"""Everything fails and is retried: ``app`` has celery-fair, ``plain`` hasn't.

Both have a task ``b.fails``, which journals its label; ``plain``'s queue is ``plain``.
"""

from __future__ import annotations

import os

from celery import Celery

from celery_fair import Fair
from tests.brokers.broker import Broker
from tests.nodes.journal import record

MAX_RETRIES = 5
DELAY_SECONDS = 0.1


def make_app(broker: Broker, *, fair: bool = True) -> Celery:
    """A new app on ``broker``."""
    app = Celery("stormy", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(broker_connection_retry_on_startup=True, task_ignore_result=True)
    if fair:
        Fair(app, kinds={"b.*": "batch", "i.*": "interactive"})
    else:
        app.conf.task_default_queue = "plain"
    for kind in "bi":
        _add(app, kind)
    return app


def _add(app: Celery, kind: str) -> None:
    @app.task(
        name=f"{kind}.fails",
        bind=True,
        shared=False,
        autoretry_for=(OSError,),
        throws=(OSError,),  # no traceback a failure
        max_retries=MAX_RETRIES,
        default_retry_delay=DELAY_SECONDS,
    )
    def fails(self, label):
        record("start", label, self)
        raise OSError(label)


if "BROKER" in os.environ:
    app = make_app(Broker.from_environ(os.environ))
    plain = make_app(Broker.from_environ(os.environ), fair=False)
