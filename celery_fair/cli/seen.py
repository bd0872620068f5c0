"""What a look at the broker has found."""

from __future__ import annotations

from dataclasses import dataclass, field

from celery_fair.observe.place import Place


@dataclass(frozen=True, slots=True)
class Seen:
    """A message at the broker; times are epoch seconds.

    ``before`` counts what its queue gives out first, fronts included. One that was given out has
    none, and ``back_at`` is when the broker gives it out again.
    """

    place: Place
    queue: str | None = None
    before: int | None = None
    in_front: int = 0
    task: str | None = None
    kind: str | None = None
    ready_at: float | None = None
    eta: float | None = None
    delivered_at: float | None = None
    back_at: float | None = None
    yields: int = 0


@dataclass(slots=True)
class Look:
    """What was looked at, and what was found there."""

    seen: Seen | None = None
    looked: list[str] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)
    """Messages ready, by queue; those that could not be counted are not there."""
    is_readable: bool = False
    """Whether this broker lets anybody look at a message without taking it."""
    is_complete: bool = False
    """Whether all was looked at."""
