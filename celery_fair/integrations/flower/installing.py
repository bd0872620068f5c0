"""Where Flower is extended, and what of it is leaned on.

Read in Flower 2.2.0 (2.0.1 has the same, but for the columns). All of it must happen before
``flower.app.Flower`` is built, which copies ``urls.handlers`` and ``urls.settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import Any, Final

from celery.events.state import Task
from flower import urls, views
from flower.events import EventsState
from tornado.options import options
from tornado.web import url

from celery_fair.integrations.flower.handlers import FairData, FairFile, FairMetrics, FairPage
from celery_fair.integrations.flower.jobs import Jobs
from celery_fair.integrations.flower.loader import Loader
from celery_fair.integrations.flower.replays import Replays
from celery_fair.integrations.flower.store import Store
from celery_fair.integrations.flower.watching import Watching

COLUMNS: Final = {"fair_kind": "Kind", "fair_queue": "Queue"}
"""Fields that workers add to Celery's own ``task-received`` events, and their headings."""

STATIC: Final = Path(__file__).with_name("static")

_installed = False


def install_once() -> None:
    """Extend Flower in this process."""
    global _installed
    if _installed:
        return
    _installed = True
    store, watching = Store(monotonic()), Watching()
    _add_handlers(store, watching)
    urls.settings["template_loader"] = Loader(urls.settings["template_path"])
    EventsState.event = _heard_by(store, EventsState.event)
    _add_columns()


def _add_handlers(store: Store, watching: Watching) -> None:
    """In front: the last one there matches everything.

    ``url`` objects, since ``--url_prefix`` makes Flower drop the third item of a tuple.
    """
    shared = {"store": store, "watching": watching}
    asked = {**shared, "jobs": Jobs(), "replays": Replays()}
    urls.handlers[:0] = [
        url(r"/fair", FairPage, name="fair"),
        url(r"/fair/data", FairData, asked, name="fair-data"),
        url(r"/fair/static/(.*)", FairFile, {"path": str(STATIC)}, name="fair-static"),
        url(r"/metrics", FairMetrics, shared),
    ]


def _heard_by(store: Store, event: Callable[..., Any]) -> Callable[..., Any]:
    """``EventsState.event``, which Flower calls in its loop for each event, heard by us as well.

    The method and not a subclass, so that a state restored by ``--persistent`` has it too.
    """

    @wraps(event)
    def heard(state: EventsState, fields: Mapping[str, Any]) -> Any:
        store.hear(fields, monotonic())
        return event(state, fields)

    return heard


def _add_columns() -> None:
    """Show kind and queue in the table of tasks, after the columns that Flower shows by default.

    On Celery's ``Task`` itself, so that tasks restored by ``--persistent`` have the fields too.
    """
    columns = getattr(views.tasks, "TASK_COLUMNS", None)
    if columns is None:  # before Flower 2.2 they are fixed
        return
    columns.update(COLUMNS)
    Task._fields = (*Task._fields, *COLUMNS)
    received = (*Task.merge_rules["RECEIVED"], *COLUMNS)
    Task.merge_rules = {**Task.merge_rules, "RECEIVED": received}
    for field in COLUMNS:
        setattr(Task, field, None)
    shown = options._options["tasks-columns"]
    if shown.value() == shown.default:  # else somebody has chosen
        options.tasks_columns = ",".join((shown.default, *COLUMNS))
