"""``job_task``: a function of one item, or of a list of them, as a task that jobs can run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal, overload

from celery import Task
from celery.exceptions import Retry

from celery_fair.errors import BadOption
from celery_fair.policy.kinds import BATCH, Kind
from celery_fair.task import fair_task

#: The header of a chunk's message: the job's id.
HEADER: Final = "fair_job"

#: And the ticket, where the message's own id is another.
TICKET: Final = "fair_ticket"

By = Literal["item", "chunk"]
WAYS: Final = ("item", "chunk")

#: Attributes of a running request: that it was begun, and that it is a chunk.
_BEGUN: Final = "fair_begun"
CHUNK: Final = "fair_chunk"


def way_of(task: Any) -> By | None:
    """Return what the function of a job task takes; None for a task of another kind."""
    way: By | None = getattr(task, "fair_job_by", None)
    return way


def in_chunk(request: Any) -> bool:
    """Whether a running request is a chunk of a job, inside of which nothing is a message."""
    return CHUNK in request.__dict__


@overload
def job_task(function: Callable[..., Any], /) -> Any: ...


@overload
def job_task(
    *, by: By = "item", kind: Kind | None = BATCH, **options: Any
) -> Callable[[Callable[..., Any]], Any]: ...


def job_task(*args: Any, by: By = "item", kind: Kind | None = BATCH, **options: Any) -> Any:
    """Make a task that `Fair.submit_job` can run over many items; takes what ``fair_task`` takes.

    With ``by="item"`` the function takes one item. With ``by="chunk"`` it takes a list of them, and
    is called again with each half of it if it raises, until the item that makes it raise is alone.
    Either way an item may be run more than once: after a worker died, say. Called as any other
    task (``delay(item)``) it runs that call alone.

    It acknowledges late, so that a chunk comes back if its worker is killed. Raises `BadOption` and
    what ``fair_task`` raises.
    """
    if by not in WAYS:
        raise BadOption("job_task(by=…)", "'item' or 'chunk'", by)
    ours = {"fair_job_by": by, "__call__": _call, "retry": _retry}
    late = {"acks_late": True, "reject_on_worker_lost": True}
    return fair_task(*args, kind=kind, **{**late, **options, **ours})


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``Task.__call__`` of a job task: Celery's tracer calls it for each message.

    And so does code that calls the task as a function, for which Celery pushes another request.
    """
    request = self.request_stack.top
    if request is None or request.called_directly or _BEGUN in request.__dict__:
        return super(_own(self.__class__), self).__call__(*args, **kwargs)
    request.__dict__[_BEGUN] = True
    call = _of_base(self.__class__)
    headers = request.headers
    if headers and HEADER in headers:
        from celery_fair.jobs.running import run_ticket

        request.__dict__[CHUNK] = True
        return run_ticket(self, request, self.run if call is None else call.__get__(self))
    return self.run(*args, **kwargs) if call is None else call(self, *args, **kwargs)


@lru_cache(maxsize=1_000)
def _own(task_class: type) -> Any:
    return next(one for one in task_class.__mro__ if vars(one).get("__call__") is _call)


@lru_cache(maxsize=1_000)
def _of_base(task_class: type) -> Any:
    """Return the ``__call__`` of a team's own base class; None where it is Celery's."""
    mro = task_class.__mro__
    after = mro[mro.index(_own(task_class)) + 1 :]
    owner = next(one for one in after if "__call__" in vars(one))
    return None if owner is Task else vars(owner)["__call__"]


def _retry(self: Any, *args: Any, **options: Any) -> Any:
    """``Task.retry`` of a job task: inside a chunk there is no message of the item alone.

    So there the item fails with what it would be retried for; `Job.retry_failed` runs it again.
    """
    request = self.request_stack.top
    if request is None or not in_chunk(request):
        return super(_own(self.__class__), self).retry(*args, **options)
    error = args[2] if len(args) > 2 else options.get("exc")
    raise error or sys.exc_info()[1] or Retry("retried inside a chunk")
