"""Finds the job that somebody means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from celery.exceptions import CeleryCommandException

from celery_fair.cli.failing import EX_USAGE
from celery_fair.cli.remote import connection_to_broker
from celery_fair.errors import JobNotFound, NotInstalled, did_you_mean

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.jobs.job import Job
    from celery_fair.jobs.progress import Progress

LOOKED: Final = 1000
"""Of so many jobs, the newest, a part of the id will do."""
PAGE: Final = 200
"""So many are asked for at once: Redis does nothing else meanwhile, for some 7 ms."""
NAMED: Final = 5


def fair_of(app: Any, what: str = "jobs are kept by celery-fair") -> Fair:
    """The Fair of an app; raises `NotInstalled`, and what is to be said of the broker's URL.

    The broker may be the Redis that keeps ``what`` is asked for.
    """
    from celery_fair.app import Fair

    connection_to_broker(app)
    fair = Fair.of(app)
    if fair is None:
        raise NotInstalled(what)
    return fair


def find(fair: Fair, said: str) -> tuple[Job, Progress]:
    """The job of an id, or of the only id that begins so, and how far it is."""
    try:
        return fair.job(said), fair.job(said).progress()
    except JobNotFound:
        known = {job.id: job for job in _newest(fair)}
    near = [id for id in known if said and id.startswith(said)]
    if len(near) == 1:
        return fair.job(near[0]), known[near[0]]
    if near:
        more = ", …" if len(near) > NAMED else ""
        raise CeleryCommandException(
            f"{len(near)} ids begin with {said!r}: {', '.join(near[:NAMED])}{more}; say more of it",
            EX_USAGE,
        )
    hint = did_you_mean(said, known) or "; `celery -A … fair job list` lists those that are kept"
    raise CeleryCommandException(f"there is no job {said!r}{hint}", EX_USAGE)


def _newest(fair: Fair) -> Iterator[Progress]:
    for start in range(0, LOOKED, PAGE):
        found = fair.list_jobs(start, PAGE)
        yield from found
        if len(found) < PAGE:
            return
