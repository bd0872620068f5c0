"""What celery-fair knows of a task, as attributes of the OpenTelemetry span that is active for it.

Nothing of OpenTelemetry is imported here. A span can only be active where the application has
imported ``opentelemetry.trace``, so it is enough to look for it in `sys.modules` each time: that
costs 50 ns and finds it however late it comes, while an import that fails searches the whole path
again at each try.

Never here: arguments, results, and what a user put into a header (``request_id``, ``tenant``).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from celery import signals

from celery_fair.headers import FairHeader

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.publish import Publish

logger = logging.getLogger(__name__)

API: Final = "opentelemetry.trace"

KIND: Final = "celery_fair.kind"
QUEUE: Final = "celery_fair.queue"
KIND_SOURCE: Final = "celery_fair.kind_source"
KIND_INHERITED: Final = "celery_fair.kind_inherited"
WAIT_SECONDS: Final = "celery_fair.wait_seconds"


def active_span() -> Any:
    """Return the span that is active here, or ``None`` if there is none that is recorded."""
    trace = sys.modules.get(API)
    if trace is None:
        return None
    span = trace.get_current_span()
    return span if span.is_recording() else None


def _set(span: Any, attributes: Mapping[str, Any]) -> None:
    span.set_attributes({name: value for name, value in attributes.items() if value is not None})


# -- the span of a run


def on_task_init(fair: Fair, before: Callable[[str, Any], None], task_id: str, task: Any) -> None:
    """Stand where ``before``, the loader's own ``on_task_init``, stood.

    Celery calls it in the process and thread that runs the task, after all receivers of
    ``task_prerun``. One of these begins the span, and a receiver of ours would come too early if
    it was connected first.
    """
    before(task_id, task)
    if API in sys.modules:
        try:
            mark_run(fair, task, time.time())
        except Exception:  # a trace is never worth a task
            logger.debug("celery-fair: a task's span could not be marked", exc_info=True)


def mark_run(fair: Fair, task: Any, now: float) -> None:
    """Tell the active span about the task that is about to run."""
    span = active_span()
    if span is None:
        return
    request = task.request
    header = FairHeader.read(request.headers)
    queue = (request.delivery_info or {}).get("routing_key")
    # The worker served it by its queue. A key that delayed delivery has rewritten is no queue.
    kind = fair.lanes.get(queue) or (header.kind if header else fair.settings.default_kind)
    found: dict[str, Any] = {KIND: kind, QUEUE: queue}
    if header is not None:
        # A publisher whose clock is ahead gives less than 0.
        found[WAIT_SECONDS] = round(max(now - header.ready_at, 0.0), 6)
        found[KIND_INHERITED] = header.inherited
    _set(span, found)


# -- the span of a publish


class _Publishing:
    """One publish under way, and the span around it."""

    def __init__(self, publish: Publish, name: str) -> None:
        self.publish = publish
        self.name = name
        self.outer = active_span()
        self.marked = False


_current: Final[ContextVar[_Publishing | None]] = ContextVar("celery_fair_publishing", default=None)


@contextmanager
def publishing(publish: Publish, name: str) -> Iterator[None]:
    """Mark the span that begins and ends inside the block, at the signals around the sending.

    It is active at one of them: at ``before_task_publish`` if its own receivers were connected
    before ours, else at ``after_task_publish``. At the other it is the span around the call, which
    may see many publishes and is left alone.
    """
    _connect()
    token = _current.set(_Publishing(publish, name))
    try:
        yield
    finally:
        _current.reset(token)


@cache
def _connect() -> None:
    """Only once something is traced: importing connects nothing."""
    for signal in (signals.before_task_publish, signals.after_task_publish):
        signal.connect(_mark_publish, dispatch_uid="celery_fair.spans")


def _mark_publish(sender: Any = None, **_: Any) -> None:
    current = _current.get()
    if current is None or current.marked or current.name != sender:
        return
    try:
        span = active_span()
        if span is not None and span is not current.outer:
            current.marked = True
            publish = current.publish
            _set(
                span,
                {KIND: publish.header.kind, KIND_SOURCE: publish.source, QUEUE: publish.queue},
            )
    except Exception:  # a trace is never worth a task
        logger.debug("celery-fair: the span of a publish could not be marked", exc_info=True)
