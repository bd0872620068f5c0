"""The app of the chaos run: tasks of both kinds that journal all that happens to their messages.

A message is known by its task's id and the number of retries. Each worker journals what it
publishes, receives, accepts, starts, ends and acknowledges, and when it finds its connection lost;
three commands force the gate, move a queue between the lanes, and tell what could have leaked.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
from celery import Celery, signals
from celery.exceptions import Retry
from celery.worker import state as worker_state
from celery.worker.consumer.consumer import Consumer
from celery.worker.control import control_command, inspect_command
from celery.worker.request import Request
from kombu.transport.redis import QoS

from celery_fair import Fair, job_task
from celery_fair.jobs import leases, running
from celery_fair.jobs.task import HEADER
from celery_fair.policy.gate import CAUSES, Gate
from celery_fair.policy.load import Mode
from celery_fair.resources.redis_store import RedisStore
from celery_fair.worker import internals, job_keeping
from celery_fair.worker.windows import RedisWindow
from tests.apps import naive
from tests.apps.mixed import BATCH_QUEUE, INTERACTIVE_QUEUE
from tests.brokers.broker import Broker
from tests.nodes.journal import record

MOVING_QUEUE = "moving"
QUEUES = (INTERACTIVE_QUEUE, BATCH_QUEUE, MOVING_QUEUE)
PER_SECOND = 40
PLACES = 3
"""At ``model``, in all workers together: tasks that are acknowledged late use it."""
DESCRIPTORS = Path("/proc/self/fd")
WORKER = "CHAOS_WORKER"
STOCK = "CHAOS_STOCK"
CLOCK = "CHAOS_CLOCK"
POOLED = 2

COUNTED = ("Channel", "Connection", "Lane", "LaneConsumer", "Slot")


def make_app(broker: Broker, *, stock: bool = False, **conf: object) -> Celery:
    """A new app on ``broker``; ``stock`` leaves celery-fair installed and switched off."""
    app = Celery("chaotic", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(
        broker_connection_retry_on_startup=True,
        # A bound: what a pool of connections keeps is no leak.
        broker_pool_limit=POOLED,
        result_expires=3600,
        task_publish_retry_policy={
            "max_retries": 60,
            "interval_start": 0.1,
            "interval_step": 0.2,
            "interval_max": 1.0,
        },
        **conf,
    )
    if stock:
        app.conf.task_routes = {"b.*": {"queue": BATCH_QUEUE}}
    Fair(
        app,
        enabled=not stock,
        kinds={"i.*": "interactive", "b.*": "batch"},
        resources={} if stock else {"model": {"max_running": PLACES}},
        uses={} if stock else {"?.late": "model", "?.late.*": "model"},
        queues={"interactive": [INTERACTIVE_QUEUE], "batch": [BATCH_QUEUE, MOVING_QUEUE]},
    )
    add_tasks(app)
    watch_publishing()
    return app


def add_tasks(app: Celery) -> None:
    """Register an interactive and a batch form of each task."""
    for prefix in ("i", "b"):
        for late in (False, True):
            _add_tasks(app, prefix, "late" if late else "early", acks_late=late)
        _add_tasks(
            app, prefix, "again", acks_late=True, reject_on_worker_lost=True
        )  # comes back even if a child is killed


def _add_tasks(app: Celery, prefix: str, ack: str, **options: object) -> None:
    task = functools.partial(app.task, bind=True, shared=False, **options)

    @task(name=f"{prefix}.{ack}")
    def run(self, seconds=0.0, *_):
        with noted(self):
            time.sleep(seconds)

    @task(name=f"{prefix}.{ack}.body")
    def body(self, results, seconds=0.0):
        with noted(self):
            time.sleep(seconds)

    @task(name=f"{prefix}.{ack}.limited", rate_limit=f"{PER_SECOND}/s")
    def limited(self, seconds=0.0):
        with noted(self):
            time.sleep(seconds)

    @task(name=f"{prefix}.{ack}.failing")
    def failing(self, seconds=0.0):
        with noted(self):
            time.sleep(seconds)
            raise ValueError("as asked")

    @task(name=f"{prefix}.{ack}.retrying", max_retries=10)
    def retrying(self, seconds=0.0, times=1, countdown=0.0):
        with noted(self):
            time.sleep(seconds)
            if self.request.retries < times:
                raise self.retry(countdown=countdown)


JOB = "b.job"
LEASE_SECONDS = 6.0


@job_task(name=JOB, bind=True)
def run_item(self, item):
    """Run one item of a job, ``[number, seconds]``; its message is no message of the account."""
    number, seconds = item
    record("item", "", n=number, job=self.request.headers[HEADER])
    time.sleep(seconds)
    if job_fails(number):
        raise ValueError("as asked")


def job_fails(number: int) -> bool:
    return number % 50 == 49


def look_after_jobs_often() -> None:
    """A run can't wait for the half minutes that workers give each other."""
    running.LEASE_SECONDS = LEASE_SECONDS
    leases.RENEW_SECONDS = LEASE_SECONDS / 3
    job_keeping.SHORTEST_SECONDS, job_keeping.LONGEST_SECONDS = 0.5, 1.5


# what is journalled


def note(event: str, task_id: str, retries: int, **more: object) -> None:
    record(event, task_id, retries=retries, worker=os.environ.get(WORKER, ""), **more)


@contextlib.contextmanager
def noted(task):
    """Journal the start of a task's body, and its end."""
    request = task.request
    place = (request.delivery_info or {}).get("fair_lease")
    note("start", request.id, request.retries, **({"place": place} if place else {}))
    try:
        yield
    except BaseException as error:
        event = "retry" if isinstance(error, Retry) else "error"
        note(event, request.id, request.retries, error=repr(error)[:80])
        raise
    note("finish", request.id, request.retries)


@functools.cache
def watch_publishing() -> None:
    """Journal each publish before it is tried and after it has succeeded."""

    def watch(event):
        def receive(headers=None, **_):
            if HEADER not in headers:
                note(event, headers["id"], headers["retries"] or 0, name=headers["task"])

        return receive

    signals.before_task_publish.connect(watch("publishing"), weak=False)
    signals.after_task_publish.connect(watch("published"), weak=False)


def watch_the_worker() -> None:
    """Journal what a worker's main process does with each message, before it does so."""
    signals.task_received.connect(_received, weak=False)
    _before(Request, "on_accepted", lambda self, pid, *_: _note("accepted", self, accepted_by=pid))
    _before(Request, "acknowledge", lambda self: self.acknowledged or _note("acking", self))
    _before(
        Request,
        "reject",
        lambda self, requeue=False: self.acknowledged or _note("rejecting", self, requeue=requeue),
    )
    _before(Consumer, "on_connection_error_after_connected", lambda self, exc: _lost(exc))
    _before(
        internals,
        "return_to_broker",
        lambda message: _note_message("returning", message.headers),
    )

    _watch_the_noting()


def _watch_the_noting() -> None:
    """Journal a message that Redis has popped, and that could not be noted as unacknowledged."""
    append = QoS.append

    def watched(self, message, delivery_tag):
        try:
            append(self, message, delivery_tag)
        except BaseException as error:
            _note_message("unnoted", message.headers, error=repr(error)[:80])
            raise

    QoS.append = watched


def _before(owner, name, call):
    method = getattr(owner, name)

    @functools.wraps(method)
    def watched(*args, **kwargs):
        call(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(owner, name, watched)


def _received(request=None, **_):
    _note("received", request)


def _note(event, request, **more):
    _note_message(event, request.request_dict, **more)


def _note_message(event, headers, **more):
    """A job's tickets have no history of their own: their items are counted."""
    if "id" in headers and HEADER not in headers:
        note(event, headers["id"], headers.get("retries") or 0, **more)


def _lost(error):
    note("lost", "", 0, error=repr(error)[:80])


# commands


forced: dict[str, Mode | None] = {"mode": None}


def watch_the_gate() -> None:
    """Let ``chaos_gate`` decide the mode, while it does."""
    observe = Gate.observe

    def observed(self, load, now, **rest):
        mode = forced["mode"]
        if mode is None:
            return observe(self, load, now, **rest)
        return None if self.mode is mode else self._change(CAUSES[mode][0], "chaos", now)

    Gate.observe = observed


@control_command()
def chaos_gate(state, mode=None, **_):
    """Force the gate ``open`` or ``protected``; without a mode, let it be."""
    forced["mode"] = None if mode is None else Mode(mode)
    return {"ok": mode}


@control_command()
def chaos_move(state, queue="", kind="", **_):
    """Give a queue to the lane of ``kind``: cancelled, then consumed anew."""
    state.consumer.call_soon(_move, state.consumer, queue, kind)
    return {"ok": kind}


def _move(consumer, queue, kind):
    consumer.cancel_task_queue(queue)
    Fair.of(consumer.app)._lane_map.kinds[queue] = kind
    consumer.add_task_queue(queue)


@control_command()
def chaos_consume(state, queue="", on=True, **_):
    """Consume from a queue, or cease to; whatever was asked before."""
    consumer = state.consumer
    consumer.call_soon(consumer.add_task_queue if on else consumer.cancel_task_queue, queue)
    return {"ok": on}


@control_command()
def chaos_resize(state, slots=0, **_):
    """Grow or shrink the pool to so many slots, as far as it lets itself be shrunk now."""
    pool = state.consumer.pool
    more = slots - pool.num_processes
    try:
        if more > 0:
            pool.grow(more)
        elif more < 0:
            pool.shrink(-more)
    except ValueError as error:  # "All processes busy!"
        return {"error": str(error)}
    return {"ok": pool.num_processes}


@inspect_command()
def chaos_probe(state, **_):
    """Count what a worker at rest must not keep, and what must not have grown."""
    gc.collect()
    consumer = state.consumer
    return {
        "busy": _busy(consumer),
        "kept": {
            **_descriptors(consumer.app),
            "threads": psutil.Process().num_threads() - _pool_threads(),
            "channels": len(consumer.connection.connection.channels),
            **_callbacks(consumer),
            **_objects(),
        },
        "slots": consumer.pool.num_processes,
        "restarts": consumer.restart_count,
        "is_green": bool(consumer.pool.is_green),
    }


def _pool_threads():
    """Those of the pool of threads, which begins each only when the others have work."""
    return sum(one.name.startswith("ThreadPoolExecutor") for one in threading.enumerate())


def _busy(consumer):
    """What is zero at rest."""
    busy = {
        "requests": len(worker_state.requests),
        "reserved": len(worker_state.reserved_requests),
        "active": len(worker_state.active_requests),
        "scheduled": len(worker_state.scheduled_requests),
    }
    scheduler = getattr(consumer.controller, "fair", None)
    if scheduler is None:
        return busy
    dispatcher, policy = scheduler.dispatcher, scheduler.policy
    lanes, windows = dispatcher.lanes.values(), dispatcher.windows.values()
    return {
        **busy,
        "slots in use": len(dispatcher.slots),
        "running": policy.running_interactive + policy.running_batch,
        "held": sum(map(len, lanes)),
        "limited": sum(lane.limited for lane in lanes),
        "scheduled in lanes": sum(lane.scheduled for lane in lanes),
        "unacknowledged": sum(len(getattr(window, "_unacked", ())) for window in windows),
        "audited": dispatcher.slots.audited,
        "places": len(dispatcher.clearing.places),
        "waiting for places": sum(len(lane.uncleared) for lane in lanes),
        "lanes shut": sum(map(_is_shut, windows)),
    }


def _is_shut(window):
    """Whether a lane takes nothing now, so that kombu's loop doesn't read its connection either."""
    pulls = not isinstance(window, RedisWindow) or internals.is_pulling(window.consumer.channel)
    return window.lane.room() <= 0 or not pulls


def _descriptors(app):
    process = psutil.Process()
    ports = {
        app.connection_for_read().as_uri().rpartition(":")[2].partition("/")[0]: "broker",
        app.conf.result_backend.rpartition(":")[2].partition("/")[0]: "results",
    }
    found = Counter({"descriptors": process.num_fds()})
    if DESCRIPTORS.exists():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found += Counter(os.readlink(path).partition(":")[0] for path in DESCRIPTORS.iterdir())
    for connection in process.net_connections("all"):
        if connection.family == socket.AF_UNIX:
            kind = "unix"
        else:
            port = str(connection.raddr.port) if connection.raddr else ""
            kind = ports.get(port, "other tcp")
            if connection.status != psutil.CONN_ESTABLISHED:
                kind = "closed tcp"
        found[f"{kind} sockets"] += 1
    return found


def _callbacks(consumer):
    hub = consumer.hub
    entries = [scheduled.entry for scheduled in list(getattr(consumer.timer, "queue", ()))]
    timers = Counter(
        f"timer {getattr(entry.fun, '__qualname__', entry.fun)}"
        for entry in entries
        if not entry.canceled
    )
    if hub is None:
        return timers
    return {
        **timers,
        "on_tick": len(hub.on_tick),
        "readers": sum(not _is_of_celery(reader) for reader, _ in hub.readers.values()),
        "writers": len(hub.writers),
    }


def _is_of_celery(reader):
    """Celery's prefork pool leaves the readers of children that it has shrunk away."""
    return getattr(reader, "__name__", "") == "on_result_readable"


def _objects():
    names = Counter(type(thing).__name__ for thing in gc.get_objects())
    return {f"{name} objects": names[name] for name in COUNTED}


def _prepare() -> None:
    look_after_jobs_often()
    watch_the_worker()
    watch_the_gate()
    for name in os.environ.get("NAIVE", "").split():
        naive.DOUBLES[name]()


app = None


def share_a_clock(file: Path) -> None:
    """Have the places of all workers go by the machine's clock and what ``file`` adds to it.

    In the stead of Redis's own, which can't be set for one server alone.
    """
    of = RedisStore.of.__func__

    def off(cls, *args):
        store = of(cls, *args)
        store._now = lambda: time.time() + float(file.read_text() or 0)
        return store

    RedisStore.of = classmethod(off)


if WORKER in os.environ:
    share_a_clock(Path(os.environ[CLOCK]))
    _prepare()
    app = make_app(
        Broker.from_environ(os.environ),
        stock=bool(os.environ.get(STOCK)),
        broker_heartbeat=int(os.environ.get("CHAOS_HEARTBEAT", "120")),
    )
