"""How far a job is, in words."""

from __future__ import annotations

from typing import Final

from celery_fair.cli.words import count, duration, plural
from celery_fair.jobs.progress import RUNNING, Band, Progress

SHORT: Final = 8
"""So much of an id is shown at least; who has ten jobs needs no more to name one."""

_EACH: Final = (("s", 1.0), ("min", 60.0), ("h", 3600.0))


def one_line(job: Progress) -> str:
    """``running, 412 of 1 000 done (41 %), 3 failed, 120/s, 4–6 min left``."""
    parts = [state(job), items(job)]
    if job.failed:
        parts.append(f"{count(job.failed)} failed")
    parts += pace(job)
    return ", ".join(parts)


def state(job: Progress) -> str:
    """``paused (model is down, by ann@ops)``."""
    return f"{job.state} ({job.reason})" if job.reason else job.state


def items(job: Progress) -> str:
    """``412 of 1 000 done (41 %)``; without a total ``412 done of 5 000 so far``."""
    if job.total is None:
        return f"{count(job.done)} done of {count(job.submitted)} so far"
    if not job.total:
        return "no items"
    # Rounded down: 100 % is said of what is done alone.
    return f"{count(job.done)} of {count(job.total)} done ({job.done * 100 // job.total} %)"


def pace(job: Progress) -> list[str]:
    """``["120/s", "4–6 min left"]``, as far as there is one."""
    if job.state != RUNNING:
        return []
    if not job.rate:
        return [] if job.running or job.done or job.failed else ["nothing has run yet"]
    return [rate(job.rate), *([f"{span(job.eta)} left"] if job.eta is not None else [])]


def rate(a_second: float) -> str:
    """``120/s``, ``1.5/s``, ``12/min``, ``3/h``: the first unit in which it is one or more."""
    if a_second <= 0:
        return "0/s"
    unit, seconds = next(
        ((unit, seconds) for unit, seconds in _EACH if a_second * seconds >= 0.95), _EACH[-1]
    )
    number = a_second * seconds
    return f"{number:.1f}/{unit}" if number < 9.95 else f"{count(round(number))}/{unit}"


def span(band: Band) -> str:
    """``4–6 min``, ``50 s – 2.1 min``, or one duration where both ends read alike."""
    low, high = (duration(end).replace(".0 ", " ") for end in band)
    if low == high:
        return f"about {high}"
    (first, unit), (_, other) = low.split(), high.split()
    return f"{first}–{high}" if unit == other else f"{low} – {high}"


def warning(job: Progress) -> str | None:
    """What somebody has to do, or else the job won't end."""
    if job.is_producer_silent:
        silent = duration(job.asked_at - (job.producer_at or job.created_at))
        return (
            f"its producer was not heard of for {silent}, and has not said that all items are "
            f"there: submit the same items again with id={job.id!r}, which goes on where it ended"
        )
    return None


def running(job: Progress) -> str | None:
    """``76 items run now, 38 in the next chunk``."""
    if job.state != RUNNING and not job.running:
        return None
    said = f"{plural(job.running, 'item')} run now" if job.running != 1 else "1 item runs now"
    return said if job.chunk_items is None else f"{said}, {count(job.chunk_items)} in a chunk"


def short(id: str, others: list[str]) -> str:
    """As much of an id as tells it from others; one that is no UUID is a name, and is whole."""
    if len(id) != 36 or id.count("-") != 4:
        return id
    length = SHORT
    while any(other != id and other.startswith(id[:length]) for other in others):
        length += 1
    return id[:length]
