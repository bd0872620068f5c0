"""A chunk: claims items, runs them, and reports what has become of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NoReturn

from billiard.exceptions import SoftTimeLimitExceeded
from celery.utils import uuid

from celery_fair.errors import JobNotFound, NotInstalled, RateLimited, StateAway
from celery_fair.internals import is_told_to_end
from celery_fair.jobs import calls, tickets
from celery_fair.jobs.insisting import insist
from celery_fair.jobs.leases import LEASE_SECONDS, leases
from celery_fair.jobs.store import Claim, JobStore, Nothing, Reported
from celery_fair.jobs.tally import Tally
from celery_fair.jobs.task import HEADER, TICKET, way_of
from celery_fair.jobs.working import WAYS, Ended
from celery_fair.policy.chunks import item_seconds, next_items, patience_seconds
from celery_fair.resources.refused import tell
from celery_fair.task import installed

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

#: For how long a chunk waits for a store that is away before it has claimed anything, in seconds.
#: Its ticket is published again later, and meanwhile the slot is of use to others.
CLAIM_SECONDS: Final = 5.0

#: For how long it waits to report: what it has done would be done again.
REPORT_SECONDS: Final = 30.0

#: How often a long chunk reports, in seconds, so that progress is seen and little is done twice.
EVERY_SECONDS: Final = 5.0

#: The same where there is much to tell.
SOON_SECONDS: Final = 0.1


def run_ticket(task: Any, request: Any, call: Callable[..., Any]) -> None:
    """Run the chunk of one message; ``call`` is the task's function. Returns nothing, ever."""
    fair = installed(task.app)
    if fair is None:
        raise NotInstalled(f"{task.name} was sent a chunk of a job")
    store, job, token = fair.jobs.store, request.headers[HEADER], uuid()
    ticket = request.headers.get(TICKET) or request.id
    claiming = partial(store.claim, job, ticket, LEASE_SECONDS, token=token)
    try:
        claim = insist(claiming, CLAIM_SECONDS)
    except StateAway:  # which the state has logged
        logger.info("celery-fair: a chunk of job %s is left for later, the state is away", job)
        return
    if isinstance(claim, Nothing):
        logger.debug("celery-fair: nothing to do for a chunk of job %s: %s", job, claim.reason)
        return
    # One run, of the chunk: each item would be one of its own, and none lasts long enough to yield.
    call = getattr(call, "__wrapped__", call) if hasattr(call, "fair_run") else call
    chunk = Chunk(fair, store, task, claim, call, _limit_of(task, request))
    fair.runs.call(task, chunk.run, (), {})


def _limit_of(task: Any, request: Any) -> float | None:
    """Return the time limit of a whole chunk, in seconds."""
    hard, soft = request.timelimit or (None, None)
    limits = (soft or task.soft_time_limit, hard or task.time_limit)
    conf = task.app.conf
    known = limits if any(limits) else (conf.task_soft_time_limit, conf.task_time_limit)
    return min((float(limit) for limit in known if limit), default=None)


class Chunk:
    """What one claim has come to."""

    def __init__(
        self,
        fair: Fair,
        store: JobStore,
        task: Any,
        claim: Claim,
        call: Callable[..., Any],
        limit_seconds: float | None,
    ) -> None:
        plan = claim.plan
        self.claim = claim
        self.call = call
        self.tally = Tally(keeps_results=plan.results)
        self._fair = fair
        self._store = store
        self._work = WAYS[way_of(task) or "item"]
        self._yielded = self._lost = self._hit_limit = False
        self._begun = self._reported_at = monotonic()
        target = plan.chunk_seconds if plan.chunk_items is None else None
        self._patience = patience_seconds(target, limit_seconds)

    def run(self) -> None:
        """Run the items; whatever ends it early leaves those that have not ended to others."""
        try:
            with leases.held(partial(self._store.renew, self.claim, LEASE_SECONDS), self._lose):
                self._fair.should_yield()  # from here on it is known as one that can
                self._work(self)
        except Ended:
            pass
        except SoftTimeLimitExceeded:
            self._hit_limit = True
        except BaseException:
            self._report_worker_end()
            raise
        self._report_end(REPORT_SECONDS)

    def _lose(self) -> None:
        self._lost = True

    # -- between items

    def between(self) -> None:
        """Look up from the work; raises `Ended` if another item shall not begin here."""
        now = monotonic()
        if self._lost:
            raise Ended
        if not self.tally.ended:  # a list has failed as a whole: the next chunk would repeat that
            return
        if self._patience is not None and now - self._begun >= self._patience:
            raise Ended
        if self._fair.should_yield():
            self._yielded = True
            raise Ended
        if now - self._reported_at >= (SOON_SECONDS if self.tally.has_much else EVERY_SECONDS):
            self._reported_at = now
            with suppress(StateAway):  # the next one tells this too
                self._report(ends=False, seconds=0.0)

    def failed(self, index: int, error: BaseException) -> None:
        """Count the next item as failed; the first of a chunk is logged as a task would be."""
        logger.log(
            logging.DEBUG if self.tally.failures else logging.ERROR,
            "celery-fair: item %d of job %s failed",
            index,
            self.claim.job,
            exc_info=error,
        )
        self.tally.failed(index, error)

    def succeeded(self, index: int, value: Any) -> None:
        """Count the next item."""
        error = self.tally.succeeded(index, value)
        if error is not None:
            self.failed(index, error)

    def end_refused(self, error: RateLimited) -> NoReturn:
        """Have all workers use less of what has refused, and raise `Ended`."""
        tell(self._fair, error)
        self._hit_limit = True
        raise Ended

    # -- reports

    def _report(self, *, ends: bool, seconds: float) -> None:
        claim, report = self.claim, self.tally.report()
        tell = partial(
            self._store.report,
            claim,
            report,
            size=self._next_size(),
            ends=ends,
            next_ticket=uuid() if ends else None,
            yielded=self._yielded,
        )
        reported = insist(tell, seconds)
        self.tally.told()
        self._follow(reported)
        if not reported.counted:
            self._lost = True
        if not ends and (self._lost or reported.stop):
            raise Ended

    def _report_end(self, seconds: float) -> None:
        if self._lost:
            return
        try:
            try:
                self._report(ends=True, seconds=seconds)
            except SoftTimeLimitExceeded:  # it comes once, and all is done but this
                self._report(ends=True, seconds=seconds)
        except StateAway:
            logger.warning(
                "celery-fair: a chunk of job %s could not report %d items: they will be run again",
                self.claim.job,
                self.tally.report().count,
            )

    def _report_worker_end(self) -> None:
        """Report once only, since nobody waits for this.

        Where the process is killed, that may be for the item that ran, by a hard time limit: it is
        lost like one whose worker was not heard of again, or it would be run for ever.
        """
        if is_told_to_end():
            with suppress(StateAway, Ended):
                self._report(ends=False, seconds=0.0)
        else:
            self._report_end(0.0)

    def _follow(self, reported: Reported) -> None:
        plan = self.claim.plan
        if reported.next_ticket is not None:
            tickets.publish(self._fair, plan, [reported.next_ticket], to_front=self._yielded)
        if reported.calls:
            try:
                calls.publish(self._fair, self._store, plan, reported.calls)
            except (StateAway, JobNotFound):  # they stay due, or somebody has forgotten the job
                logger.debug("celery-fair: callbacks of job %s are left for later", plan.id)

    def _next_size(self) -> int:
        plan, tally = self.claim.plan, self.tally
        if self._hit_limit and not tally.ended:  # a list that takes too long as a whole
            return max(len(self.claim.items) // 2, 1)
        if plan.chunk_items is not None:
            return plan.chunk_items
        seconds = item_seconds(self.claim.item_seconds, tally.ended, tally.total_seconds)
        return next_items(len(self.claim.items), seconds, plan.chunk_seconds)
