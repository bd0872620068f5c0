"""The app of ``tests.apps.trapped`` with tasks that end badly, and with what strikes a worker.

STRIKE names what goes wrong in the worker's own process, as ``name`` or ``name:label``.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import signal
import struct
import threading
import time
from pathlib import Path

from billiard.connection import Connection
from celery import Celery
from celery.worker import state
from celery.worker.control import inspect_command

from celery_fair.worker import internals, scheduler
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.hooks import Hooks
from celery_fair.worker.pools import EventletPool, GeventPool, Pool, SoloPool, ThreadPool
from celery_fair.worker.slots import Slots
from tests.apps import endings, naive
from tests.apps.mixed import BATCH_QUEUE
from tests.brokers.broker import Broker
from tests.nodes.journal import record, recorded

logger = logging.getLogger(__name__)

TWO_WRITES = 16384
"""Bytes: what is larger billiard sends in two writes."""

# doubles, beside those of tests.apps.naive


@naive.double
def settle_only_at_once() -> None:
    """What the semaphore has kept is given to the pool behind the dispatcher's back."""
    internals.process_parked_with = lambda worker, process: None


@naive.double
def forget_slots() -> None:
    """No pool gives a slot back, which leaves them all to the audit."""

    def give(self, apply, slot, args, options):
        return apply(*args, **options)

    for adapter in (Pool, ThreadPool, GeventPool, EventletPool, SoloPool):
        adapter.apply = give


@naive.double
def leave_celerys_books() -> None:
    """What Celery counts for ever stays in its books."""
    Slots.ended = lambda self, known: []


@naive.double
def tick_in_a_thread() -> None:
    """The tick has a thread of its own, also where there is an event loop."""
    connect = scheduler.Scheduler.connect

    def with_thread(self):
        connect(self)

        def tick():
            while True:
                self.tick()
                time.sleep(0.01)

        threading.Thread(target=tick, daemon=True).start()

    scheduler.Scheduler.connect = with_thread


@naive.double
def give_back_in_the_tick() -> None:
    """What is overdue goes back in the thread that has found it: the timer's, without a loop."""
    Dispatcher.give_back_in_this_thread = lambda self: None


@naive.double
def forget_half_read_results() -> None:
    """What a child is in the midst of sending when the connection is lost is forgotten."""
    internals.finish_results = lambda hub: None


# tasks

RARE_MODULES = ("colorsys", "imaplib", "mailbox", "netrc", "plistlib", "quopri", "tabnanny", "wave")


def make_app(broker: Broker, **conf: object) -> Celery:
    """As ``trapped.make_app``, with the tasks of ``tests.apps.endings`` and those below."""
    from tests.apps import trapped

    return add_tasks(trapped.make_app(broker, **conf))


def add_tasks(app: Celery) -> Celery:
    endings.add_tasks(app)
    for prefix in ("i", "b"):

        @app.task(name=f"{prefix}.hungry", bind=True, shared=False)
        def hungry(self, label):
            with recorded(self, label):
                raise MemoryError(label)

        @app.task(
            name=f"{prefix}.dying_late", bind=True, shared=False, acks_late=True,
            reject_on_worker_lost=True,
        )  # fmt: skip
        def dying_late(self, label):
            with recorded(self, label):
                os.kill(os.getpid(), signal.SIGKILL)

        @app.task(name=f"{prefix}.importing", bind=True, shared=False)
        def importing(self, label, number):
            with recorded(self, label):
                importlib.import_module(RARE_MODULES[number % len(RARE_MODULES)])
                logger.info("as a task logs")

    return app


@inspect_command()
def fair_books(panel_state, **_):
    """Our count of what runs, and Celery's own of what is active and reserved."""
    dispatcher = panel_state.consumer.controller.fair.dispatcher
    return {
        "in_use": len(dispatcher.slots),
        "active": len(state.active_requests),
        "reserved": len(state.reserved_requests),
        "processes": panel_state.consumer.pool.num_processes,
    }


# strikes


def revoke_at_a_time_limit(task_id: str) -> None:
    """A task is revoked while the child of another is being killed: its request is parked then."""
    from celery.worker.request import Request

    on_timeout = Request.on_timeout

    def revoking(self, soft, timeout):
        parked = [request.id for request in state.reserved_requests - state.active_requests]
        record("parked", len(parked))
        state.revoked.add(task_id)
        return on_timeout(self, soft, timeout)

    Request.on_timeout = revoking


def kill_before_it_begins(label: str) -> None:
    """A greenlet is killed before it has run its first line."""

    def killing(adapter, kill):
        give = adapter.apply

        def apply(self, apply, slot, args, options):
            result = give(self, apply, slot, args, options)
            if repr(label) in slot.request.argsrepr:
                kill(next(reversed(self.pool._pool_map.values())))
                record("killed", label)
            return result

        adapter.apply = apply

    killing(GeventPool, lambda greenlet: greenlet.kill(block=False))
    killing(EventletPool, lambda thread: thread.kill())


def audit_often(_: str) -> None:
    """The audit looks twice a second, so that its second look does not take ten."""
    scheduler.AUDIT_SECONDS = 0.5


def look_at_forks(_: str) -> None:
    """Journal which threads there are at each fork, and whether one of them holds our lock."""
    dispatchers: list[Dispatcher] = []
    make = Dispatcher.__init__

    def noting(self, *args, **options):
        make(self, *args, **options)
        dispatchers.append(self)

    def before():
        held = [one for one in dispatchers if not one.lock.acquire(blocking=False)]
        for one in dispatchers:
            if one not in held:
                one.lock.release()
        record("fork", len(held), threads=[thread.name for thread in threading.enumerate()])

    Dispatcher.__init__ = noting
    os.register_at_fork(before=before)


def lose_connections(every: str) -> None:
    """One look in so many at a queue finds the connection lost, and the tick comes all the time."""
    from amqp.exceptions import RecoverableConnectionError
    from kombu.transport import filesystem

    look, looks = filesystem.Channel._get, itertools.count(1)

    def losing(self, queue):
        if BATCH_QUEUE in queue and next(looks) % int(every) == 0:
            record("lost", queue)
            raise RecoverableConnectionError("as a strike has it")
        return look(self, queue)

    filesystem.Channel._get = losing
    scheduler.TICK_SECONDS = 0.002


def name_threads(_: str) -> None:
    """Journal which thread gives a message back."""
    give_back = internals.return_to_broker

    def noting(message):
        record("returned", threading.current_thread().name)
        give_back(message)

    internals.return_to_broker = noting


def send_half_until_reset(path: str) -> None:
    """A large result comes in two parts: the second when the loop forgets what it was reading."""
    send, reset = Connection._send_bytes, Hooks._reset_hub

    def halting(self, buffer):
        if len(buffer) <= TWO_WRITES:
            return send(self, buffer)
        self._send(struct.pack("!i", len(buffer)))
        record("half", len(buffer))
        while not Path(path).exists():
            time.sleep(0.01)
        time.sleep(0.05)
        self._send(buffer)

    def telling(self, wrapped):
        Path(path).touch()
        reset(self, wrapped)

    Connection._send_bytes, Hooks._reset_hub = halting, telling


STRIKES = {
    "send_half_until_reset": send_half_until_reset,
    "name_threads": name_threads,
    "lose_connections": lose_connections,
    "audit_often": audit_often,
    "look_at_forks": look_at_forks,
    "revoke_at_a_time_limit": revoke_at_a_time_limit,
    "kill_before_it_begins": kill_before_it_begins,
}


def _strike() -> None:
    name, _, argument = os.environ.get("STRIKE", "").partition(":")
    if name:
        STRIKES[name](argument)


app = None
if "BROKER" in os.environ:
    from tests.apps import trapped

    _strike()
    app = add_tasks(trapped.app)
