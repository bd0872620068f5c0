"""Job tasks that do what their items say, in workers that notice soon what is lost.

An item is ``{"n": number, …}``: with ``"fail"`` it raises, with ``"die"`` it sends that signal to
the process that runs it, with ``"sleep"`` it takes so many seconds. Each run of one is in the
journal, as "item".
"""

from __future__ import annotations

import os
import time

from celery import Celery

from celery_fair import Fair, job_task
from celery_fair.jobs import leases, running
from celery_fair.worker import job_keeping
from tests.brokers.broker import Broker
from tests.nodes.journal import record

#: In the environment: how long a lease is where nobody dies, and no stall is to look like it.
LEASE = "JOB_LEASE"
LEASE_SECONDS = 1.5


def make_app(broker: Broker, **conf: object) -> Celery:
    """A new app on ``broker`` with the tasks below."""
    app = Celery("jobbing", set_as_current=False)
    app.conf.update(broker.conf())
    app.conf.update(broker_connection_retry_on_startup=True, **conf)
    app.conf.worker_pool_start_method = os.environ.get("START_METHOD", "fork")
    Fair(app)

    @app.task(name="told", shared=False)
    def told(progress, what):
        record(what, progress["id"], done=progress["done"], failed=progress["failed"])

    @app.task(name="asking", bind=True, shared=False, kind="batch")
    def asking(self, came_by=None):
        """Publish itself, and then say where that came by."""
        if came_by is None:
            return self.apply_async(("child",))
        record("asking", self.request.id, queue=self.request.delivery_info["routing_key"])

    return app


def do(item: dict) -> int:
    """Do what an item says."""
    record("item", item["n"])
    if "sleep" in item:
        time.sleep(item["sleep"])
    if "die" in item:
        os.kill(os.getpid(), item["die"])
    if "fail" in item:
        raise ValueError("as asked")
    return item["n"]


@job_task(name="each")
def each(item):
    """Do one item."""
    return do(item)


@job_task(name="lists", by="chunk")
def lists(items):
    """Do a list of them."""
    return [do(item) for item in items]


def hurry() -> None:
    """Notice within a second or two what takes half a minute otherwise."""
    running.LEASE_SECONDS = float(os.environ.get(LEASE, LEASE_SECONDS))
    leases.RENEW_SECONDS = running.LEASE_SECONDS / 3
    job_keeping.SHORTEST_SECONDS, job_keeping.LONGEST_SECONDS = 0.2, 0.5


app = None
if "BROKER" in os.environ:
    hurry()
    app = make_app(Broker.from_environ(os.environ))
    app.set_current()
