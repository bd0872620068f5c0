"""celery-ranch: keeps tasks in a backlog by key; a task of its own picks which one is published."""

from __future__ import annotations

from celery import Celery
from celery.signals import worker_ready
from celery_ranch import lru_task
from mixed_load.contestant import Call

from tests.benchmarks.others.bodies import broker_url, journal, perform
from tests.benchmarks.others.processes import Worker

app = Celery("others", broker=broker_url())
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    task_default_queue="tasks",
    task_routes={"ranch.prioritize_task": {"queue": "prioritize"}},
)
app.set_default()


@lru_task(app, name="others.interactive")
def interactive(*args: object) -> None:
    perform["interactive"](*args)


@lru_task(app, name="others.batch")
def batch(*args: object) -> None:
    perform["batch"](*args)


@worker_ready.connect(weak=False)
def report_ready(**_: object) -> None:
    journal.ready()


def workers(slots: int) -> list[Worker]:
    options = ["-Q", "prioritize,tasks", "-c", str(slots), "-P", "threads", "-l", "WARNING"]
    return [Worker(["celery", "-A", __name__, "worker", *options], slots)]


def submit(kind: str, call: Call) -> None:
    (interactive if kind == "interactive" else batch).lru_delay(kind, *call.args)
