"""Jobs as text: a line each, or one of them with all that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from celery_fair.cli import job_words as words
from celery_fair.cli.rows import head, rows_of, sentence
from celery_fair.cli.words import ago, count, duration, plural
from celery_fair.jobs.progress import ENDED, Failure, Progress


def show_list(console: Console, jobs: Sequence[Progress], start: int, more: bool) -> None:
    """A line each, the newest first."""
    if not jobs:
        sentence(
            console, "No job is kept." if not start else f"No more than {start} jobs are kept."
        )
        return
    ids = [job.id for job in jobs]
    rows_of(console, [(words.short(job.id, ids), _line(job)) for job in jobs], indent=0)
    if more:
        sentence(console, f"More: --start {start + len(jobs)}")


def _line(job: Progress) -> str:
    silent = "; its producer is silent" if job.is_producer_silent else ""
    return f"{job.task}: {words.one_line(job)}{silent}"


def show_one(console: Console, job: Progress, failures: Sequence[Failure]) -> None:
    """All that is known; of the failures those that were asked for."""
    head(console, f"{job.id}  {job.task}, {job.kind}")
    rows_of(console, [*_rows(job), *(("failed", text) for text in failure_lines(job, failures))])


def _rows(job: Progress) -> Iterator[tuple[str, str]]:
    yield "state", words.state(job)
    yield "items", words.items(job) + (f", {count(job.failed)} failed" if job.failed else "")
    pace = [said for said in (*words.pace(job), words.running(job)) if said]
    if pace:
        yield "pace", ", ".join(pace)
    yield "times", ", ".join(_times(job))
    if job.yields:
        yield "gave way", plural(job.yields, "time")
    if job.lost:
        yield "lost", f"{plural(job.lost, 'chunk')} whose worker was not heard of again"
    if (warning := words.warning(job)) is not None:
        yield "warning", warning


def _times(job: Progress) -> Iterator[str]:
    yield f"submitted {ago(job.created_at, job.asked_at)}"
    if job.first_at is not None:
        yield f"first item done {ago(job.first_at, job.asked_at)}"
    if job.state in ENDED:
        took = duration(job.last_at - job.created_at)
        yield f"ended {ago(job.last_at, job.asked_at)} after {took}"
    else:
        yield f"last sign {ago(job.last_at, job.asked_at)}"


def failure_lines(job: Progress, failures: Sequence[Failure]) -> Iterator[str]:
    """``item 17: ValueError, 3 times, last 2 min ago``; never the item or what it said."""
    for one in failures:
        times = "" if one.times == 1 else f", {one.times} times, last"
        yield f"item {one.index}: {one.error}{times} {ago(one.at, job.asked_at)}"
    left = job.failed - len(failures)
    if left > 0:
        yield f"{count(left)} more: `fair job failures` lists them"
