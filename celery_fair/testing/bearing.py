"""Whether work bears being stopped: it is over, it has succeeded, and it was stopped."""

from __future__ import annotations

import time
from typing import Any, Final

from celery.result import AsyncResult

from celery_fair.jobs.job import Job
from celery_fair.jobs.progress import ENDED, FINISHED, Progress
from celery_fair.observe.endings import SUCCEEDED
from celery_fair.testing.told import Watch, failure_of

__tracebackhide__ = True
"""Of pytest: a failure is shown where the test asks, and not in here."""

LOOK_SECONDS: Final = 0.5
"""A job is asked how far it is whenever a task of the worker has ended, and so often besides."""

SHOWN_FAILURES: Final = 3


def times_of_task(watch: Watch, result: AsyncResult, timeout: float) -> int:
    """Wait until a task is over; raises AssertionError if it isn't, or if it failed."""

    def over() -> bool:
        story = watch.story(result.id)
        return story is not None and story.is_over

    ended = watch.journal.wait(over, timeout)
    story = watch.story(result.id)
    yields = 0 if story is None else story.yields
    if story is None or not ended:
        name = result.id if story is None else story.name
        raise AssertionError(
            f"expected {name} to be over in {timeout:g} s, and it is not; it was stopped {yields} "
            f"times\n{watch.situation()}\n{watch.explanation(result.id)}"
        )
    if story.outcome != SUCCEEDED:
        raise AssertionError(
            f"expected {story.name} to bear being stopped, and it {story.outcome} in run "
            f"{story.runs}{failure_of(result)}\n{watch.situation()}"
        )
    return yields


def times_of_job(watch: Watch, job: Job, timeout: float) -> int:
    """Wait until a job is over; raises AssertionError if it isn't, or if items failed."""
    progress = _ended(watch, job, timeout)
    if progress.state not in ENDED:
        why = f" ({progress.reason})" if progress.reason else ""
        raise AssertionError(
            f"expected {job!r} to be over in {timeout:g} s, and it is {progress.state}{why}: "
            f"{progress.done} items of {progress.submitted} done, {progress.failed} failed\n"
            f"{watch.situation()}"
        )
    if progress.state != FINISHED:
        first = "".join(
            f"\n  {one.item!r}: {one.error}: {one.message}"
            for one in job.failures(0, SHOWN_FAILURES)
        )
        raise AssertionError(
            f"expected {job!r} to bear being stopped, and it {progress.state}: {progress.failed} "
            f"items of {progress.submitted}{first}\n{watch.situation()}"
        )
    return progress.yields


def _ended(watch: Watch, job: Job, timeout: float) -> Progress:
    end = time.monotonic() + timeout
    while True:
        seen = watch.journal.changes
        progress = job.progress()
        left = end - time.monotonic()
        if progress.state in ENDED or left <= 0:
            return progress
        watch.journal.wait_for_more(seen, min(left, LOOK_SECONDS))


def never_stopped(watch: Watch, made: Any, n_items: int, most_asked: int) -> AssertionError:
    """The failure of work that no question has reached, or that was too short for one."""
    story = watch.story(made.id) if isinstance(made, AsyncResult) else None
    name = repr(made) if story is None else story.name
    why = (
        "it never asked whether to yield: fair.yielding, fair.checkpoint and jobs do"
        if not most_asked
        else f"its longest run had {most_asked} items"
    )
    return AssertionError(
        f"expected {name} to be stopped after {n_items} items, and it never was: {why}\n"
        f"{watch.situation()}"
    )
