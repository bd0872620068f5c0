"""``tests.apps.trapped`` with a batch queue that depends on its consumer, as KEPT says."""

from __future__ import annotations

import os

from kombu import Queue

from tests.apps import trapped

EXPIRY_SECONDS = 0.5

QUEUES = {
    "auto_delete": {"auto_delete": True},
    "expires": {"expires": EXPIRY_SECONDS},
    "single_active": {"queue_arguments": {"x-single-active-consumer": True}},
}


def conf(kept: str) -> dict[str, object]:
    """The settings that declare such a queue."""
    return {"task_queues": [Queue("celery"), Queue("celery.batch", **QUEUES[kept])]}


app = trapped.app
if app is not None:
    app.conf.update(conf(os.environ["KEPT"]))
