"""The app of ``tests.apps.mixed`` for the tests of traps: gates of a test's own, doubles, a probe.

NAIVE names doubles of ``tests.apps.naive``, which a test needs to show that it can fail; WATCHED
names what the worker writes into the journal; HOARD is how many messages a lane fetches before it
obeys its credit. The last makes messages *held*, which otherwise is a matter of milliseconds.
AWAY is a file: while it is there, a worker that has lost its connection does not get a new one.
PREFETCH is the prefetch count that kombu's channels are given behind our back.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from celery import Celery
from celery.worker.control import control_command, inspect_command

from tests.apps import mixed, naive
from tests.brokers.broker import Broker
from tests.nodes.journal import record

POLL_SECONDS = 0.01


def make_app(broker: Broker, **conf: object) -> Celery:
    """A new app on ``broker`` with mixed's tasks."""
    return mixed.make_app(broker, **conf)


@inspect_command()
def fair_probe(panel_state, **_):
    """What can leak over reconnects: our timer entries, and callbacks of the event loop."""
    from celery_fair.worker import internals

    consumer = panel_state.consumer
    scheduler, hub = getattr(consumer.controller, "fair", None), consumer.hub
    entries = [scheduled.entry for scheduled in list(consumer.timer.queue)]
    ours = [entry for entry in entries if "Scheduler.tick" in _name(entry) and not entry.canceled]
    return {
        "restarts": consumer.restart_count,
        "timers": len(ours),
        "on_tick": len(hub.on_tick) if hub else 0,
        "scheduled": len(internals.scheduled_requests(consumer.timer)),
        "slots_in_use": len(scheduler.dispatcher.slots) if scheduler else 0,
    }


@control_command()
def fair_move(panel_state, queue, kind):
    """Give a queue another kind: what a worker does to change a queue's lane."""
    consumer = panel_state.consumer
    move(consumer, queue, kind)
    return {"ok": f"{queue} is {kind}"}


def move(consumer, queue, kind):
    consumer.cancel_task_queue(queue)
    consumer.controller.fair.fair.lanes[queue] = kind
    consumer.add_task_queue(queue)


def _name(entry):
    return getattr(entry.fun, "__qualname__", "")


# what a worker watches of itself


def watch_ticks() -> None:
    """Journal each tick of the scheduler."""
    from celery_fair.worker.scheduler import Scheduler

    tick = Scheduler.tick

    def watched(self):
        tick(self)
        record("tick", "tick")

    Scheduler.tick = watched


def watch_nesting() -> None:
    """Journal a message that is delivered while another is being dealt with."""
    from celery_fair.worker.dispatcher import Dispatcher

    on_task_request = Dispatcher.on_task_request
    depth = 0

    def watched(self, request):
        nonlocal depth
        depth += 1
        if depth > 1:
            record("nested", depth)
        try:
            on_task_request(self, request)
        finally:
            depth -= 1

    Dispatcher.on_task_request = watched


def watch_returns() -> None:
    """Journal each message that is given back to the broker."""
    from celery_fair.worker import internals

    return_to_broker = internals.return_to_broker

    def watched(message):
        record("returned", message.headers["id"])
        return_to_broker(message)

    internals.return_to_broker = watched


def watch_conf() -> None:
    """Journal each look-up of ``app.conf`` that our code makes by itself."""
    import sys

    from celery.utils.collections import ConfigurationView

    get = ConfigurationView.__getitem__
    between = ("celery/utils/collections.py", "celery/app/utils.py")
    ours = ("/celery_fair/worker/", "/tests/apps/naive.py")

    def watched(self, key):
        frame = sys._getframe(1)
        while frame and frame.f_code.co_filename.endswith(between):
            frame = frame.f_back
        if frame and any(name in frame.f_code.co_filename for name in ours):
            record("looked_up", key)
        return get(self, key)

    ConfigurationView.__getitem__ = watched


def hoard(most: int) -> None:
    """Let each lane fetch ``most`` messages before its credit counts, each time it is empty."""
    from celery_fair.worker import pulling
    from celery_fair.worker.lanes import Lane

    class HoardingLane(Lane):
        __slots__ = ("_full",)

        def __init__(self, *args):
            super().__init__(*args)
            self._full = False

        def grant(self, credit, now):
            self._full = self.waiting >= most or (self._full and self.waiting > 0)
            super().grant(credit if self._full else max(credit, most), now)

    pulling.Lane = HoardingLane


def refuse_to_accept(label: str) -> None:
    """Raise in ``Request.on_accepted`` of the task whose label is ``label``."""
    from celery.worker.request import Request

    on_accepted = Request.on_accepted

    def raising(self, pid, time_accepted):
        if self.argsrepr and repr(label) in self.argsrepr:
            record("refused", label)
            raise RuntimeError("on_accepted failed")
        return on_accepted(self, pid, time_accepted)

    Request.on_accepted = raising


def keep_away(path: str) -> None:
    """Let a lost connection come back only when ``path`` is gone."""
    from celery.worker.consumer import Consumer

    connect = Consumer.connect

    def waiting(self):
        while Path(path).exists():
            time.sleep(POLL_SECONDS)
        return connect(self)

    Consumer.connect = waiting


def force_prefetch(count: int) -> None:
    """Set kombu's own prefetch count of each channel of a lane."""
    from celery_fair.worker.scheduler import Scheduler

    connect = Scheduler.connect

    def forced(self):
        connect(self)
        for part in self.pulling.parts.values():
            part.channel.qos.prefetch_count = count

    Scheduler.connect = forced


WATCHES = {
    "ticks": watch_ticks,
    "nesting": watch_nesting,
    "returns": watch_returns,
    "conf": watch_conf,
}


def _prepare() -> None:
    if os.environ.get("HOARD"):
        hoard(int(os.environ["HOARD"]))
    if os.environ.get("REFUSE"):
        refuse_to_accept(os.environ["REFUSE"])
    if os.environ.get("PREFETCH"):
        force_prefetch(int(os.environ["PREFETCH"]))
    if os.environ.get("AWAY"):
        keep_away(os.environ["AWAY"])
    for name in os.environ.get("WATCHED", "").split():
        WATCHES[name]()
    for name in os.environ.get("NAIVE", "").split():
        naive.DOUBLES[name]()


app = None
if "BROKER" in os.environ:
    _prepare()
    app = make_app(Broker.from_environ(os.environ))
