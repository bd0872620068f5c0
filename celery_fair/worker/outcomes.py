"""How a task ended, read from what the pool calls back with."""

from __future__ import annotations

from typing import Any, Final

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.exceptions import Ignore, Reject, Retry

from celery_fair.observe.endings import (
    CANCELLED,
    FAILED,
    IGNORED,
    LOST,
    REJECTED,
    REQUEUED,
    RETRIED,
    REVOKED,
    SUCCEEDED,
    TIME_LIMIT,
    YIELDED,
)
from celery_fair.worker import internals
from celery_fair.yielding.words import GaveWay

WITHDRAWN: Final = "withdrawn"
"""Of a slot whose task was dropped while prefork had it parked: it is counted among the drops."""

_OF_THE_POOL: Final[dict[str, Any]] = {
    TIME_LIMIT: TimeLimitExceeded,
    REVOKED: Terminated,
    LOST: (WorkerLostError, SystemExit, KeyboardInterrupt),
}
_OF_THE_TASK: Final[dict[str, Any]] = {
    RETRIED: Retry,
    YIELDED: GaveWay,
    IGNORED: Ignore,
    LOST: (SystemExit, KeyboardInterrupt),
}


def outcome_of(returned: Any, request: Any) -> str:
    """Return the outcome behind the argument of a pool's callback; never raises.

    That is ``(failed, value, seconds)``, as ``Request.on_success`` takes it, or the
    ``ExceptionInfo`` of what went wrong around the task.
    """
    try:
        return _outcome_of(returned, request)
    except Exception:  # an exception's class may be anybody's
        return LOST


def _outcome_of(returned: Any, request: Any) -> str:
    inside = type(returned) is tuple
    if inside:
        failed, returned, seconds = returned
        if not failed:
            return SUCCEEDED if seconds is not None else _not_run(failed, request)
    if internals.was_asked_to_end(request):
        return REVOKED if internals.was_revoked(request) else CANCELLED
    error = getattr(returned, "exception", None)
    if isinstance(error, ExceptionWithTraceback):
        error = error.exc
    if isinstance(error, Reject):
        return REQUEUED if error.requeue else REJECTED
    # A task may well raise what another one's result has brought it: only its own verdicts count.
    for outcome, types in (_OF_THE_TASK if inside else _OF_THE_POOL).items():
        if isinstance(error, types):
            return outcome
    return FAILED if inside else LOST


def unsaid(request: Any) -> str:
    """The outcome of a task of whose end no callback has told."""
    return REVOKED if internals.was_revoked(request) else LOST


def _not_run(failed: Any, request: Any) -> str:
    """Without a run time: a greenlet was killed (``False``), or it had succeeded before (``0``).

    The latter is ``worker_deduplicate_successful_tasks``. Of the former Celery notes later that it
    was revoked.
    """
    if failed is not False:
        return IGNORED
    return REVOKED if internals.is_flagged_revoked(request) else CANCELLED
