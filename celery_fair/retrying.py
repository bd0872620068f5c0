"""``Task.retry`` of a batch task in a worker: later and later, and no more often than it may."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from celery.utils.serialization import raise_with_context

from celery_fair.globs import BUILT_IN
from celery_fair.moments import epoch_of, seconds_of
from celery_fair.options import known_kind
from celery_fair.policy.kinds import BATCH
from celery_fair.policy.retries import backoff_seconds
from celery_fair.publish import running_header
from celery_fair.retries import RetryBudget

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: The shortest time between two lines that say that there are no more retries, a process.
QUIET_SECONDS: Final = 10.0


class Retrying:
    """Decides when the retries of one app's batch tasks run, inside a worker in enforce mode."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._warned_at = -QUIET_SECONDS
        #: Whether this is a worker, or a child of one, that decides at all.
        self.decides = False
        #: Of the whole worker; made before its pool forks. None where there is no limit.
        self.budget: RetryBudget | None = None

    def open(self) -> None:
        """This process is a worker that enforces; the children that it has already aren't told."""
        self.decides = True
        ratio = self._fair.settings.batch_retry_budget
        if ratio is not None and self.budget is None:  # else some of them have this one
            self.budget = RetryBudget(ratio, monotonic())

    def rest(self) -> None:
        """The worker only observes, for a while perhaps."""
        self.decides = False

    def close(self) -> None:
        """The worker ends."""
        self.decides = False
        self.budget = None

    def timed(self, task: Any, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a ``retry`` with the time at which it is to run.

        Raises what ``retry`` raises at ``max_retries``, if too many wait for their turn already.
        """
        limit = asked.get("max_retries")
        limit = task.max_retries if limit is None else limit
        if not self._is_ours(task, asked) or (limit is not None and task.request.retries >= limit):
            return asked
        delay = self._delay(task, asked)
        if delay is None:
            return asked
        explicit = asked.get("eta") or asked.get("countdown") is not None
        granted = self._granted(task, delay, limit)
        if granted is None:
            self._refuse(task, asked.get("exc"))
        return (
            asked if explicit and granted == delay else {**asked, "eta": None, "countdown": granted}
        )

    def _is_ours(self, task: Any, asked: Mapping[str, Any]) -> bool:
        """Whether it is a batch task that retries, as itself, where that is decided here."""
        request = task.request
        if not self.decides or request.called_directly or request.is_eager:
            return False
        if task.name.startswith(BUILT_IN):  # chord_unlock is retried until others are done
            return False
        if asked.get("kind") is not None:
            return known_kind(asked["kind"], f"kind= of {task.name}") == BATCH
        lane = self._fair.lanes.get((request.delivery_info or {}).get("routing_key"))
        return (lane or running_header(self._fair, task, time.time()).kind) == BATCH

    def _delay(self, task: Any, asked: Mapping[str, Any]) -> float | None:
        """Return the delay asked for, else by the number of retries; None if it can't be read."""
        countdown, eta = asked.get("countdown"), asked.get("eta")
        if eta:  # as in ``Task.retry``, which looks at the countdown only without it
            at = epoch_of(eta, self._fair.app)
            return None if at is None else max(at - time.time(), 0.0)
        if countdown is not None:
            seconds = seconds_of(countdown)
            return None if seconds is None else max(seconds, 0.0)
        base = float(task.default_retry_delay or 0.0)
        if getattr(task, "retry_backoff", False):
            return base
        longest = self._fair.settings.batch_retry_max_seconds
        return backoff_seconds(base, task.request.retries, longest, random.random)

    def _granted(self, task: Any, delay: float, limit: int | None) -> float | None:
        """Return the delay that the budget allows for; None for no retry at all."""
        budget = self.budget  # gone when the worker ends, while its threads may still retry
        if budget is None or not getattr(task, "fair_retry_budget", True):
            return delay
        longest = self._fair.settings.batch_retry_max_seconds
        granted = budget.take(monotonic(), delay, longest)
        # One without a limit must not end here: it comes as late as can be.
        return max(delay, longest) if granted is None and limit is None else granted

    def _refuse(self, task: Any, error: BaseException | None) -> None:
        now = monotonic()
        if now - self._warned_at >= QUIET_SECONDS:
            self._warned_at = now
            logger.warning(
                "celery-fair: %s[%s] is not retried: batch_retry_budget is used up for the next "
                "%g s, as too many batch tasks fail. See docs/retries.md",
                task.name,
                task.request.id,
                self._fair.settings.batch_retry_max_seconds,
            )
        if error is not None:
            raise_with_context(error)
        raise task.MaxRetriesExceededError(
            f"Can't retry {task.name}[{task.request.id}]: batch_retry_budget is used up"
        )
