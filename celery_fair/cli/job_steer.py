"""Pauses, resumes, cancels and retries a job, and says what has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException

from celery_fair.cli.job_find import fair_of, find
from celery_fair.cli.job_words import one_line
from celery_fair.cli.ordering import operator
from celery_fair.cli.rows import sentence
from celery_fair.cli.status import console
from celery_fair.cli.words import plural
from celery_fair.jobs.progress import CANCELLED, ENDED, Progress

if TYPE_CHECKING:
    from celery_fair.jobs.job import Job

EX_ENDED = 1
"""The job has ended, so that there was nothing to change."""
LONGEST_REASON = 200


def signed(reason: str | None) -> str:
    """A reason with who gave it, ``model is down, by ann@ops``."""
    by = f"by {operator()}"
    return f"{reason[:LONGEST_REASON]}, {by}" if reason else by


def steer(obj: CLIContext, id: str, change: Callable[[Job], object], *, as_json: bool) -> None:
    """Change a job; `change` returns False where the job has ended."""
    job, before = find(fair_of(obj.app), id)
    if before.state in ENDED or change(job) is False:
        raise CeleryCommandException(_ended(job.progress()), EX_ENDED)
    _tell(obj, before, job.progress(), as_json=as_json)


def _ended(job: Progress) -> str:
    said = f"the job {job.id} has ended ({job.state}), and nothing of it runs"
    again = job.failed and job.state != CANCELLED
    return f"{said}; `fair job retry` runs what has failed again" if again else said


def retry_failed(obj: CLIContext, id: str, *, as_json: bool) -> None:
    """Run again what has failed, and say how much that is."""
    job, before = find(fair_of(obj.app), id)
    if before.state == CANCELLED:
        raise CeleryCommandException(f"the job {job.id} was cancelled, for good", EX_ENDED)
    number = job.retry_failed()
    after = job.progress()
    if not as_json:
        said = (
            f"{plural(number, 'item')} of {job.id} will run again" if number else "Nothing failed"
        )
        sentence(console(obj), f"{said}.")
    _tell(obj, before, after, as_json=as_json)


def _tell(obj: CLIContext, before: Progress, after: Progress, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(after.as_dict(), indent=2))
        return
    out = console(obj)
    sentence(out, f"{after.id}  {before.state} → {after.state}")
    sentence(out, one_line(after), indent=2)
