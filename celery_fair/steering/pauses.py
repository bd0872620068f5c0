"""Pauses, and how much of a wait they account for."""

from __future__ import annotations

from typing import NamedTuple

from celery_fair.policy.kinds import Kind
from celery_fair.steering.names import pause_of
from celery_fair.steering.orders import Order


class Pause(NamedTuple):
    """The last pause of a kind, or of a queue; epoch seconds, ``ended`` is ``None`` while it lasts.

    ``by`` is who has paused it, or who has resumed it.
    """

    kind: Kind
    queue: str | None
    by: str
    began: float
    ended: float | None = None

    def overlap(self, since: float, until: float) -> float:
        """How many of the seconds between two times were in the pause."""
        ended = until if self.ended is None else min(until, self.ended)
        return max(ended - max(since, self.began), 0.0)


def pause_span(order: Order) -> Pause | None:
    """The pause that an order begins or ends; ``None`` if it is about something else."""
    what = pause_of(order.name)
    if what is None:
        return None
    began = float(order.value) if type(order.value) in (int, float) else order.at
    return Pause(what.kind, what.queue, order.by, began, None if order.on else order.at)
