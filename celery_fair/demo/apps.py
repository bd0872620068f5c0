"""The demo's app, as a team may have it, and the two lines that are added to it."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final

from celery import Celery
from celery.signals import worker_ready

from celery_fair import Fair

BROKER_VARIABLE: Final = "CELERY_FAIR_DEMO_BROKER"
JOURNAL_VARIABLE: Final = "CELERY_FAIR_DEMO_JOURNAL"

ANSWER: Final = "demo.answer"
SUMMARIZE: Final = "demo.summarize"


def plain_app(broker_url: str) -> Celery:
    """Plain Celery with one queue and default settings: a usual start."""
    app = Celery("demo", broker=broker_url, set_as_current=False)
    app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)

    @app.task(name=ANSWER, shared=False)
    def answer(number: int, sent_at: float, seconds: float) -> None:
        """Someone waits for it."""
        _work("interactive", number, sent_at, seconds)

    @app.task(name=SUMMARIZE, shared=False)
    def summarize(number: int, sent_at: float, seconds: float) -> None:
        """Nobody waits for it, but there is a lot of it."""
        _work("batch", number, sent_at, seconds)

    return app


def fair_app(broker_url: str) -> Celery:
    """The same app with celery-fair."""
    app = plain_app(broker_url)
    Fair(app, kinds={SUMMARIZE: "batch", ANSWER: "interactive"})
    return app


def _work(kind: str, number: int, sent_at: float, seconds: float) -> None:
    record("started", kind=kind, number=number, wait_seconds=time.time() - sent_at)
    time.sleep(seconds)
    record("done", kind=kind, number=number)


def record(event: str, **fields: Any) -> None:
    """Append a line to the journal: one ``write``, so that processes can share the file."""
    path = os.environ.get(JOURNAL_VARIABLE)
    if path is None:
        return
    line = json.dumps({"event": event, "at": time.time(), **fields}) + "\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@worker_ready.connect
def _ready(**_: Any) -> None:
    record("ready")
