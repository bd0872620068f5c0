"""The kind of the code that asks, for what isn't published but shared: clients, pools, caches."""

from __future__ import annotations

from celery import current_app, current_task

from celery_fair.ambient import ambient
from celery_fair.options import declared_kind
from celery_fair.policy.kinds import INTERACTIVE, Kind
from celery_fair.publish import running_header
from celery_fair.task import installed


def current_kind() -> Kind:
    """Return the kind that an undeclared task would have if it were published here.

    That of the block or the request around this code, else of the task that runs it, else the
    default. Like a publish it sees no task in a thread that the task started by hand, unless that
    thread runs in ``contextvars.copy_context()`` of a block that says a kind.
    """
    around = ambient.get()
    if around is not None and around.kind is not None:
        return around.kind
    # What is called directly (`task()`) is a part of its caller, whose slot it uses.
    task = current_task.app.current_worker_task if current_task else None
    fair = installed(current_app if task is None else task.app)
    if fair is None:
        return (None if task is None else declared_kind(task)) or INTERACTIVE
    return fair.settings.default_kind if task is None else running_header(fair, task, 0.0).kind
