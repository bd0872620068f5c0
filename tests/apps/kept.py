"""``tests.apps.trapped`` with a batch queue of its own kind, as KEPT says."""

from __future__ import annotations

import os

from kombu import Queue

from tests.apps import trapped

EXPIRY_SECONDS = 0.5
PATIENCE_SECONDS = 4

QUEUES = {
    "auto_delete": {"auto_delete": True},
    "expires": {"expires": EXPIRY_SECONDS},
    "single_active": {"queue_arguments": {"x-single-active-consumer": True}},
    "impatient": {
        "queue_arguments": {
            "x-queue-type": "quorum",
            "x-consumer-timeout": 1000 * PATIENCE_SECONDS,
        }
    },
}


def conf(kept: str) -> dict[str, object]:
    """The settings that declare such a queue."""
    return {"task_queues": [Queue("celery"), Queue("celery.batch", **QUEUES[kept])]}


app = trapped.app
if app is not None:
    app.conf.update(conf(os.environ["KEPT"]))
