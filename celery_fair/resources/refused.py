"""A task that a resource has refused, and that runs again when that may be over."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from celery import Task

from celery_fair.errors import FairError, RateLimited
from celery_fair.policy.aimd import LONGEST_DEFAULT_SECONDS, LONGEST_SECONDS
from celery_fair.policy.retries import backoff_seconds

if TYPE_CHECKING:
    from celery_fair.app import Fair

#: Without a word of the resource: the delay of the first retry.
FIRST_SECONDS: Final = 1.0


def tell(fair: Fair, error: RateLimited) -> None:
    """Have all workers use less of what has refused."""
    try:
        fair.resources.charging.slow_down(error.resource, _said(error))
    except FairError:  # a resource that there is not: the task's own error tells more
        return


def again(fair: Fair, task: Any, error: RateLimited) -> BaseException:
    """Publish the retry of a task that was refused; return what Celery is to be told.

    As a retry of Celery's it counts, and after the task's ``max_retries`` it fails. It isn't one of
    `batch_retry_budget`: that keeps retries from feeding an overload, and here the resource's own
    gate does.
    """
    tell(fair, error)
    seconds = _said(error)
    if seconds is None:
        retries = task.request.retries
        seconds = backoff_seconds(FIRST_SECONDS, retries, LONGEST_DEFAULT_SECONDS, random.random)
    try:
        return Task.retry(task, exc=error, countdown=seconds, throw=False)
    except Exception as raised:  # max_retries, which raises the error itself
        return raised


def _said(error: RateLimited) -> float | None:
    """Return what the resource has said in seconds; a header's text too, and None for nonsense.

    Who raises it has other things to do than to check what a stranger has sent.
    """
    try:
        seconds = float(error.retry_after)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, LONGEST_SECONDS) if seconds >= 0.0 else None
