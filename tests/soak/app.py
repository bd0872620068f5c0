"""The app of the soak: tasks of both kinds that journal their runs, and a look inside the worker.

SOAK_STOCK leaves celery-fair out altogether; the queues are the same then.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time

from celery import Celery
from celery.exceptions import Retry
from celery.worker import state as worker_state
from celery.worker.control import control_command, inspect_command
from kombu import Queue

from celery_fair import Fair
from tests.apps.mixed import BATCH_QUEUE, INTERACTIVE_QUEUE
from tests.brokers.broker import Broker
from tests.nodes.journal import record

STOCK = "SOAK_STOCK"
PER_SECOND = 2


def make_app(broker: Broker, *, stock: bool) -> Celery:
    """A new app on ``broker``, with celery-fair or without."""
    app = Celery("soak", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(
        broker_connection_retry_on_startup=True,
        # Bounds: what a pool of connections keeps, and what results Redis keeps, is no leak.
        broker_pool_limit=2,
        result_expires=60,
        worker_max_tasks_per_child=100,
    )
    if stock:
        app.conf.task_routes = {"b.*": {"queue": BATCH_QUEUE}}
        app.conf.task_queues = [
            Queue(name, routing_key=name) for name in (INTERACTIVE_QUEUE, BATCH_QUEUE)
        ]
    else:
        Fair(app, kinds={"i.*": "interactive", "b.*": "batch"})
    for prefix in ("i", "b"):
        for ack in ("early", "late"):
            _add_tasks(app, f"{prefix}.{ack}", acks_late=ack == "late")
    return app


def _add_tasks(app: Celery, prefix: str, **options: object) -> None:
    task = functools.partial(app.task, bind=True, shared=False, **options)

    @task(name=prefix)
    def run(self, seconds):
        with noted(self):
            time.sleep(seconds)

    @task(name=f"{prefix}.limited", rate_limit=f"{PER_SECOND}/s")
    def limited(self, seconds):
        with noted(self):
            time.sleep(seconds)

    @task(name=f"{prefix}.failing")
    def failing(self, seconds):
        with noted(self):
            time.sleep(seconds)
            raise ValueError("as asked")

    @task(name=f"{prefix}.retrying", max_retries=10)
    def retrying(self, seconds, times, countdown):
        with noted(self):
            time.sleep(seconds)
            if self.request.retries < times:
                raise self.retry(countdown=countdown)


@contextlib.contextmanager
def noted(task):
    """Journal the start of a task's body, and its end."""
    retries = task.request.retries
    record("start", task.request.id, task, retries=retries)
    event = "finish"
    try:
        yield
    except BaseException as error:
        event = "retry" if isinstance(error, Retry) else "error"
        raise
    finally:
        record(event, task.request.id, task, retries=retries)


@control_command()
def soak_resize(state, slots=0, **_):
    """``pool_grow`` or ``pool_shrink``, and whether the pool let itself be shrunk now."""
    consumer = state.consumer
    try:
        if slots > 0:
            consumer.pool.grow(slots)
        else:
            consumer.pool.shrink(-slots)
    except ValueError as error:  # "All processes busy!"
        return {"error": str(error)}
    consumer._update_prefetch_count(slots)
    return {"ok": consumer.pool.num_processes}


@inspect_command()
def soak_probe(state, **_):
    """What is zero at rest, and what must not have grown by then."""
    consumer = state.consumer
    scheduler = getattr(consumer.controller, "fair", None)
    hub = consumer.hub
    return {
        "busy": {
            "requests": len(worker_state.requests),
            "reserved": len(worker_state.reserved_requests),
            "active": len(worker_state.active_requests),
            "scheduled": len(worker_state.scheduled_requests),
            **(_busy(scheduler) if scheduler else {}),
        },
        "kept": {
            "slots": consumer.pool.num_processes,
            "timers": len(getattr(consumer.timer, "queue", ())),
            "channels": len(consumer.connection.connection.channels),
            "prefetch": consumer.qos.value,
            **({"on_tick": len(hub.on_tick), "readers": _readers(hub)} if hub else {}),
        },
        "waits": _waiting(scheduler) if scheduler else {},
        "audited": scheduler.dispatcher.slots.audited if scheduler else 0,
        "restarts": consumer.restart_count,
        "done": sum(worker_state.total_count.values()),
    }


def _readers(hub):
    """What the loop reads, without the pool's pipes.

    Celery keeps those of a child that has gone while the connection was lost, and puts them back
    into the loop with each new one: two or three in a dozen lost connections.
    """
    return sum("asynpool" not in _module(callback) for callback, _ in hub.readers.values())


def _module(callback):
    if hasattr(callback, "gi_code"):  # half-read
        return callback.gi_code.co_filename
    return getattr(callback, "__module__", "")


def _busy(scheduler):
    dispatcher, policy = scheduler.dispatcher, scheduler.policy
    lanes = dispatcher.lanes.values()
    return {
        "slots in use": len(dispatcher.slots),
        "running": policy.running_interactive + policy.running_batch,
        "held": sum(map(len, lanes)),
        "limited": sum(lane.limited for lane in lanes),
        "scheduled in lanes": sum(lane.scheduled for lane in lanes),
    }


def _waiting(scheduler):
    now = time.monotonic()
    return {
        kind: {"held": len(lane), "backlog": scheduler.backlog.of(kind, now)}
        for kind, lane in scheduler.lanes.items()
    }


app = None
if "BROKER" in os.environ:
    app = make_app(Broker.from_environ(os.environ), stock=bool(os.environ.get(STOCK)))
