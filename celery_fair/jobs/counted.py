"""What a store has counted of a job, and the progress that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import ENDED, RUNNING, Band, JobState, Progress
from celery_fair.policy.job_pace import Pace, believable, lately, seconds_left
from celery_fair.policy.kinds import BATCH


@dataclass(frozen=True, slots=True)
class Counted:
    """As it is kept; times are epoch seconds of the store's clock."""

    state: JobState
    reason: str | None
    submitted: int
    closed: bool
    done: int
    failed: int
    running: int
    size: int
    created_at: float
    started_at: float | None
    """When work began, since the job was started, resumed, or tried again."""
    first_at: float | None
    last_at: float
    producer_at: float
    finished_since: int
    """Items since ``started_at``."""
    counts: Mapping[int, int]
    """Finished items, by the number of their bucket."""
    yields: int
    lost: int

    def progress(self, plan: Plan, now: float) -> Progress:
        """Return what there is to tell, with the pace and the time left."""
        pace = self._pace(now)
        return Progress(
            id=plan.id,
            task=plan.task,
            kind=str(plan.options.get("kind") or BATCH),
            state=self.state,
            reason=self.reason,
            submitted=self.submitted,
            total=self._total(plan),
            submitting=not self.closed and self.state not in ENDED,
            done=self.done,
            failed=self.failed,
            running=self.running,
            rate=None if pace is None else pace.rate,
            eta=self._eta(plan, pace),
            chunk_items=self.size,
            created_at=self.created_at,
            first_at=self.first_at,
            last_at=self.last_at,
            producer_at=None if self.closed else self.producer_at,
            asked_at=now,
            yields=self.yields,
            lost=self.lost,
        )

    def _total(self, plan: Plan) -> int | None:
        if self.closed or plan.total is None:
            return self.submitted if self.closed else None
        return max(plan.total, self.submitted)

    def _pace(self, now: float) -> Pace | None:
        """The pace lately; of a job that has ended, the pace that it had then."""
        started = self.started_at
        if self.state in ENDED:
            now = self.last_at
        if started is None or now <= started or self.first_at is None:
            return None
        whole = Pace(self.finished_since, now - started, from_start=True)
        return believable(lately(self.counts, started, now), whole, self.running)

    def _eta(self, plan: Plan, pace: Pace | None) -> Band | None:
        total = self._total(plan)
        if total is None or self.state != RUNNING:
            return None
        left = total - self.done - self.failed
        found = seconds_left(left, self.running, pace)
        return None if found is None else Band(*found)
