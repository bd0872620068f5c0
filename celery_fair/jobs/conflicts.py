"""What contradicts a job, each as an error with its cure."""

from __future__ import annotations

from celery_fair.errors import JobConflict


def other_task(job: str, kept: str, got: str) -> JobConflict:
    """A second job of one id."""
    return JobConflict(
        f"job {job!r}: expected {kept!r}, of which it is a job already, got {got!r}; "
        "give the new one another id"
    )


def too_many_items(job: str, total: int) -> JobConflict:
    """A producer that repeats itself, with more."""
    return JobConflict(
        f"job {job!r}: expected the {total} items that it was submitted with, got more; "
        "submit those as another job"
    )


def other_total(job: str, submitted: int, total: int) -> JobConflict:
    """A producer that repeats itself, with less."""
    return JobConflict(
        f"job {job!r}: expected its {submitted} items, got {total}; submit the same items again, "
        "or others as another job"
    )


def lost_items(job: str, kept: int, submitted: int) -> JobConflict:
    """A store that has forgotten what it had, which a producer can't produce again."""
    return JobConflict(
        f"job {job!r}: expected {submitted} items to be kept, got {kept}: its Redis has lost some; "
        "submit the same items again under the same id"
    )


def stands(job: str) -> JobConflict:
    """A producer that would wait for ever: an eager app runs nothing meanwhile."""
    return JobConflict(
        f"job {job!r}: expected room for its other items, got a job that is paused and full; see "
        "the reason in its progress, resume it, and submit the same items again under the same id"
    )


def not_ended(job: str, state: str) -> JobConflict:
    """A job that can't be forgotten."""
    return JobConflict(
        f"job {job!r}: expected one that has ended, got one {state}; cancel it first"
    )
