"""Jobs in this process's memory: for eager apps and tests; what it keeps dies with the process."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kombu.utils.uuid import uuid

from celery_fair.errors import JobNotFound
from celery_fair.jobs import conflicts, keeping, memory_steps
from celery_fair.jobs.items import readable
from celery_fair.jobs.memory_job import MemoryJob
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import (
    CANCELLED,
    ENDED,
    FINISHED_WITH_FAILURES,
    RUNNING,
    Failure,
    Progress,
)
from celery_fair.jobs.store import Appended, Claim, Due, Nothing, Overdue, Report, Reported


class MemoryStore:
    """A `JobStore` that is safe from any thread."""

    def __init__(
        self, clock: Callable[[], float] = time.time, make_id: Callable[[], str] = uuid
    ) -> None:
        self._clock = clock
        self._make_id = make_id
        self._lock = threading.Lock()
        self._jobs: dict[str, MemoryJob] = {}

    @contextmanager
    def _step(self, job: str, *, touch: bool = True) -> Iterator[tuple[MemoryJob, float]]:
        with self._lock:
            now = self._clock()
            found = self._find(job, now)
            if found is None:
                raise JobNotFound(job)
            yield found, now
            if touch:
                found.touched_at = now

    def _find(self, job: str, now: float) -> MemoryJob | None:
        found = self._jobs.get(job)
        if found is not None and found.expires_at <= now:
            del self._jobs[job]
            return None
        return found

    def create(self, plan: Plan) -> bool:
        with self._lock:
            now = self._clock()
            found = self._find(plan.id, now)
            if found is None:
                self._jobs[plan.id] = MemoryJob(plan, now, touched_at=now, look_at=now)
                return True
        if found.plan.task != plan.task:
            raise conflicts.other_task(plan.id, found.plan.task, plan.task)
        return False

    def append(self, job: str, first: int, items: Sequence[str]) -> Appended:
        with self._step(job) as (found, now):
            if found.state == CANCELLED:
                return Appended(found.submitted, 0, True)
            new = items[found.submitted - first :] if first <= found.submitted else ()
            if found.closed and new:
                raise conflicts.too_many_items(job, found.submitted)
            found.producer_at = now
            for item in new[: found.room]:
                found.items[found.submitted] = item
                found.submitted += 1
                found.last_at = now
            return Appended(found.submitted, found.room, False)

    def close(self, job: str, total: int) -> Sequence[Due]:
        with self._step(job) as (found, now):
            if found.state == CANCELLED:
                return []
            if total != found.submitted:
                raise conflicts.other_total(job, found.submitted, total)
            if found.closed:
                return []
            found.closed = True
            found.last_at = now
            return memory_steps.settle(found, now)

    def grant(self, job: str, tickets: Sequence[str]) -> Sequence[str]:
        with self._step(job) as (found, now):
            return found.grant(tickets, now)

    def claim(
        self, job: str, ticket: str, lease_seconds: float, *, token: str | None = None
    ) -> Claim | Nothing:
        try:
            with self._step(job) as (found, now):
                return memory_steps.claim(
                    found, ticket, token or self._make_id(), lease_seconds, now
                )
        except JobNotFound:
            return Nothing("unknown")

    def renew(self, claim: Claim, lease_seconds: float) -> bool:
        try:
            with self._step(claim.job, touch=False) as (found, now):
                held = memory_steps.held_by(found, claim)
                if held is not None:
                    held.until = now + lease_seconds
                return held is not None
        except JobNotFound:
            return False

    def report(
        self,
        claim: Claim,
        report: Report,
        *,
        size: int,
        ends: bool,
        next_ticket: str | None = None,
        yielded: bool = False,
    ) -> Reported:
        try:
            with self._step(claim.job) as (found, now):
                end = memory_steps.End(next_ticket, yielded) if ends else None
                return memory_steps.report(found, claim, report, size, end, now)
        except JobNotFound:
            return Reported(False)

    def overdue(self, tasks: Sequence[str], limit: int = 100) -> Sequence[Overdue]:
        with self._lock:
            now = self._clock()
            names = [job for job in list(self._jobs) if self._find(job, now)]
            late = [job for job in map(self._jobs.__getitem__, names) if _is_late(job, tasks, now)]
            late.sort(key=lambda job: (job.look_at, job.plan.id))
            seed, numbers = self._make_id(), itertools.count()
            mint = (f"{seed}-{number}" for number in numbers)
            looks = (self._look(job, limit, mint, now) for job in late[: keeping.LOOKS])
            return [look for look in looks if look.tickets or look.calls]

    def _look(self, job: MemoryJob, limit: int, mint: Iterator[str], now: float) -> Overdue:
        job.look_at = now + keeping.LOOK_SECONDS
        tickets, calls = memory_steps.overdue(job, limit, mint, now)
        if (tickets or calls) and job.state not in ENDED:
            job.touched_at = now
        return Overdue(job.plan.id, tickets, calls)

    def called(self, job: str, due: Due) -> None:
        with self._step(job) as (found, _):
            if found.numbers.get(due.call) == due.number:
                found.due.pop(due.call, None)

    def pause(self, job: str, reason: str) -> bool:
        with self._step(job) as (found, now):
            if found.state == RUNNING:
                memory_steps.pause(found, reason)
                found.last_at = now
            return found.state not in ENDED

    def resume(self, job: str) -> bool:
        with self._step(job) as (found, now):
            if found.state in ENDED:
                return False
            if found.state != RUNNING:
                memory_steps.begin_anew(found, now)
                found.state, found.reason = RUNNING, None
            return True

    def cancel(self, job: str, reason: str) -> bool:
        with self._step(job) as (found, now):
            if found.state in ENDED:
                return False
            memory_steps.pause(found, reason)
            found.state = CANCELLED
            found.back.clear()
            found.retrying.clear()
            if not found.claims:
                found.items.clear()
            found.last_at = now
            return True

    def retry_failed(self, job: str) -> int:
        with self._step(job) as (found, now):
            count = len(found.failed)
            if found.state == CANCELLED or not count:
                return 0
            found.retrying |= found.failed
            found.failed.clear()
            memory_steps.begin_anew(found, now)
            if found.state == FINISHED_WITH_FAILURES:
                found.state = RUNNING
            return count

    def plan(self, job: str) -> Plan:
        with self._step(job, touch=False) as (found, _):
            return found.plan

    def progress(self, job: str) -> Progress:
        with self._step(job, touch=False) as (found, now):
            return found.counted().progress(found.plan, now)

    def list(self, start: int = 0, count: int = 50) -> Sequence[Progress]:
        with self._lock:
            now = self._clock()
            kept = [job for name in list(self._jobs) if (job := self._find(name, now))]
            kept.sort(key=lambda job: (job.created_at, job.plan.id), reverse=True)
            return [job.counted().progress(job.plan, now) for job in kept[start : start + count]]

    def failures(self, job: str, start: int = 0, count: int = 100) -> Sequence[Failure]:
        with self._step(job, touch=False) as (found, _):
            page = sorted(found.failed)[start : start + count]
            return [_failure(index, found) for index in page]

    def results(self, job: str, start: int = 0, count: int = 100) -> Mapping[int, str]:
        with self._step(job, touch=False) as (found, _):
            page = range(start, min(start + count, found.submitted))
            return {index: found.results[index] for index in page if index in found.results}

    def forget(self, job: str) -> None:
        with self._step(job) as (found, _):
            if found.state not in ENDED:
                raise conflicts.not_ended(job, found.state)
            del self._jobs[job]


def _is_late(job: MemoryJob, tasks: Sequence[str], now: float) -> bool:
    return job.is_looked_after and job.look_at <= now and job.plan.task in tasks


def _failure(index: int, job: MemoryJob) -> Failure:
    kept = job.failures[index]
    return Failure(index, readable(kept.item), kept.error, kept.message, kept.times, kept.at)
