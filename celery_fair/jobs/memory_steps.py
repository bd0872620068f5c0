"""What becomes of the items of a job in memory: done, failed or lost; and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from celery_fair.jobs import keeping
from celery_fair.jobs.memory_job import FailedItem, Held, MemoryJob, Piece, Waiting
from celery_fair.jobs.progress import FINISHED, FINISHED_WITH_FAILURES, PAUSED, RUNNING
from celery_fair.jobs.store import Claim, Due, Failed, Nothing, Report, Reported
from celery_fair.policy.chunks import item_seconds as learned_seconds
from celery_fair.policy.job_failures import too_many
from celery_fair.policy.job_pace import BUCKETS, bucket_of


class End(NamedTuple):
    """How a claim ends."""

    next_ticket: str | None
    yielded: bool


def count(job: MemoryJob, held: Held, report: Report, now: float) -> int:
    """Count what a report has that is new; return how many items that are."""
    fresh = max(report.after + report.count - held.reported, 0)
    losses, indices = held.piece
    finished, held.piece = indices[:fresh], Piece(losses, indices[fresh:])
    held.reported += len(finished)
    failed = {one.index: one for one in report.failed}
    for index in finished:
        if index in failed:
            fail(job, failed[index], now)
        else:
            _succeed(job, index, report.results.get(index))
        _finished(job, index, now)
    if finished:
        _measure(job, len(finished), report.seconds / report.count, now)
    return len(finished)


def _succeed(job: MemoryJob, index: int, result: str | None) -> None:
    job.done += 1
    job.failures.pop(index, None)
    if result is not None:
        job.results[index] = result


def fail(job: MemoryJob, failed: Failed, now: float) -> None:
    """Keep the failure of one item."""
    before = job.failures.get(failed.index)
    job.failures[failed.index] = FailedItem(
        job.item(failed.index),
        keeping.kept(failed.error, keeping.MAX_NAME),
        keeping.kept(failed.message, keeping.MAX_TEXT),
        1 if before is None else before.times + 1,
        now,
    )
    job.failed.add(failed.index)
    job.failed_since += 1


def _finished(job: MemoryJob, index: int, now: float) -> None:
    job.items.pop(index, None)
    job.finished_since += 1
    job.last_at = now
    if job.first_at is None:
        job.first_at = now


def _measure(job: MemoryJob, finished: int, item_seconds: float, now: float) -> None:
    bucket = bucket_of(now)
    job.counts = {key: value for key, value in job.counts.items() if key > bucket - BUCKETS}
    job.counts[bucket] = job.counts.get(bucket, 0) + finished
    job.item_seconds = learned_seconds(job.item_seconds, 1, item_seconds)


def settle(job: MemoryJob, now: float) -> list[Due]:
    """Finish a job of which nothing is left, or pause it at too many failures."""
    if job.state not in (RUNNING, PAUSED):
        return []
    if job.closed and not job.left:
        job.state = FINISHED_WITH_FAILURES if job.failed else FINISHED
        job.reason = None
        job.waiting.clear()
        return _due(job, "finish", now)
    reason = _why_pause(job) if job.state == RUNNING else None
    if reason is None:
        return []
    pause(job, reason)
    return _due(job, "failures", now)


def _settle_for_keepers(job: MemoryJob, now: float) -> None:
    """Where the answer has no room for callbacks: the keepers publish them at their next look."""
    for late in settle(job, now):
        job.due[late.call] = now


def _why_pause(job: MemoryJob) -> str | None:
    bears = job.plan.max_failures
    if too_many(job.failed_since, job.finished_since, job.total, bears):
        return keeping.TOO_MANY % (job.failed_since, job.finished_since)
    if len(job.failed) >= job.room_for_failures:
        return keeping.FULL % len(job.failed)
    return None


def pause(job: MemoryJob, reason: str) -> None:
    """Let nothing more start: tickets that arrive find it paused."""
    job.state, job.reason = PAUSED, keeping.kept(reason, keeping.MAX_TEXT)
    job.waiting.clear()


def progress_due(job: MemoryJob, now: float) -> list[Due]:
    """The callback on progress, if it is time for it."""
    if now - job.progress_called_at < job.plan.progress_seconds:
        return []
    job.progress_called_at = now
    return _due(job, "progress", now)


def _due(job: MemoryJob, call: str, now: float) -> list[Due]:
    if call not in job.plan.calls:
        return []
    job.numbers[call] = job.numbers.get(call, 0) + 1
    job.due[call] = now + keeping.CALL_SECONDS
    job.look_soon(now)
    return [Due(call, job.numbers[call])]


def report(
    job: MemoryJob,
    claim: Claim,
    said: Report,
    size: int,
    ends: End | None,
    now: float,
) -> Reported:
    """Count a report, and say what follows."""
    held = held_by(job, claim)
    if held is None or said.after > held.reported:
        until, answer = job.answers.get(claim.token, (0.0, Reported(False)))
        return answer if until > now else Reported(False)
    new = count(job, held, said, now)
    job.size = job.plan.chunk_items or max(size, 1)
    calls = settle(job, now)
    if new and not calls and job.state == RUNNING:
        calls = progress_due(job, now)
    if ends is None:
        return Reported(True, None, job.state != RUNNING, tuple(calls))
    follows = _end(job, claim, held, ends, now)
    answer = Reported(True, follows, job.state != RUNNING, tuple(calls))
    job.answers = {key: value for key, value in job.answers.items() if value[0] > now}
    job.answers[claim.token] = (now + keeping.ANSWER_SECONDS, answer)
    return answer


def _end(job: MemoryJob, claim: Claim, held: Held, ends: End, now: float) -> str | None:
    """End a claim and its ticket; return the next one, if there is work for it."""
    job.yields += ends.yielded
    del job.claims[claim.ticket]
    job.give_back(held.piece)
    granted = job.grant([ends.next_ticket] if ends.next_ticket else [], now)
    return granted[0] if granted else None


def held_by(job: MemoryJob, claim: Claim) -> Held | None:
    """What a claim has; None if it is lost."""
    held = job.claims.get(claim.ticket)
    return held if held is not None and held.token == claim.token else None


def take_back(job: MemoryJob, ticket: str, now: float) -> None:
    """Take what a lost worker has claimed: in halves, or an item that was alone as failed."""
    losses, indices = job.claims.pop(ticket).piece
    losses += 1
    job.lost += 1
    if job.state == RUNNING:
        job.waiting[ticket] = Waiting(now, keeping.TICKET_SECONDS / 2)
    if len(indices) == 1 and losses >= keeping.LOSSES and job.state in (RUNNING, PAUSED):
        fail(job, Failed(indices[0], keeping.WORKER_LOST, keeping.WORKER_LOST_MESSAGE), now)
        _finished(job, indices[0], now)
        return
    half = (len(indices) + 1) // 2
    job.give_back(Piece(losses, indices[:half]))
    job.give_back(Piece(losses, indices[half:]))


def overdue(
    job: MemoryJob, limit: int, mint: Iterator[str], now: float
) -> tuple[list[str], list[Due]]:
    """Take lost claims back; return the tickets (``mint`` are new ones) and calls to publish."""
    lost = sorted((held.until, ticket) for ticket, held in job.claims.items())
    for until, ticket in lost[:limit]:
        if until <= now:
            take_back(job, ticket, now)
    _settle_for_keepers(job, now)
    again = _wait_again(job, limit, now)
    again += job.grant(islice(mint, min(limit - len(again), job.wanted)), now)
    late = sorted(call for call, due in job.due.items() if due <= now)
    job.due.update((call, now + keeping.CALL_SECONDS) for call in late)
    return again, [Due(call, job.numbers[call]) for call in late]


def _wait_again(job: MemoryJob, limit: int, now: float) -> list[str]:
    """Tickets that may have got lost, each for twice as long; without work they are dropped."""
    late = sorted((one.due, ticket) for ticket, one in job.waiting.items() if one.due <= now)
    again = []
    for _, ticket in late[:limit]:
        if not job.work:
            del job.waiting[ticket]
            continue
        seconds = 2 * job.waiting[ticket].seconds
        job.waiting[ticket] = Waiting(now + seconds, seconds)
        again.append(ticket)
    return again


def begin_anew(job: MemoryJob, now: float) -> None:
    """Count failures, and the time since work began, from now on."""
    job.failed_since = job.finished_since = 0
    job.room_for_failures = len(job.failed) + keeping.KEPT_FAILURES
    job.started_at = None
    job.counts.clear()
    job.last_at = now
    job.look_soon(now)


def claim(
    job: MemoryJob, ticket: str, token: str, lease_seconds: float, now: float
) -> Claim | Nothing:
    """Claim items for a ticket, unless another delivery of it works on them."""
    held = job.claims.get(ticket)
    if held is not None and held.token != token:
        if held.until > now:
            return Nothing("surplus")
        take_back(job, ticket, now)
        _settle_for_keepers(job, now)
        held = None
    if held is None:
        nothing = job.why_not(ticket)
        if nothing is not None:
            job.waiting.pop(ticket, None)
            return nothing
        held = _hold(job, ticket, token, now + lease_seconds, now)
    losses, indices = held.piece
    items = [job.item(index) for index in indices]
    return Claim(
        job.plan.id, ticket, token, list(indices), items, losses, job.item_seconds, job.plan
    )


def _hold(job: MemoryJob, ticket: str, token: str, until: float, now: float) -> Held:
    del job.waiting[ticket]
    job.claims[ticket] = held = Held(token, job.take_what_fits(), until)
    if job.started_at is None:
        job.started_at = now
    return held
