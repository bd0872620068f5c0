"""``tests.apps.timing`` with a hook before batch tasks that does what a task's argument says.

``label:answer:value``, as in ``a:delay:0.5``; a second time it is asked about a task it admits it.
"""

from __future__ import annotations

import os
import threading

from celery import Celery

from celery_fair.before import Admit, Answer, Delay, HeldTask, Refuse, Reroute
from tests.apps import timing
from tests.brokers.broker import Broker
from tests.nodes.journal import record

_asked: set[str] = set()


def hook(task: HeldTask) -> Answer | None:
    label, _, rest = str(task.args[0]).partition(":")
    what, _, value = rest.partition(":")
    record("asked", label, named=task.name, queue=task.queue, waited=task.waited_seconds)
    again, _ = task.id in _asked, _asked.add(task.id)
    if what == "hang":
        threading.Event().wait(float(value))
    if again and what != "always":
        return Admit()
    if what == "delay":
        return Delay(float(value))
    if what == "reroute":
        return Reroute(value)
    if what == "refuse":
        return Refuse(value)
    if what == "fail":
        raise RuntimeError(value)
    return None if what == "nothing" else Admit()


def make_app(broker: Broker, **conf: object) -> Celery:
    app = timing.make_app(broker, **conf)
    app.conf.fair = {"before_batch": hook}
    return app


app = make_app(Broker.from_environ(os.environ)) if "BROKER" in os.environ else None
