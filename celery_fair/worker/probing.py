"""Looks for what is overdue at the broker, in lanes that can start nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from celery_fair.policy.kinds import Kind
from celery_fair.worker.arrivals import Arrivals
from celery_fair.worker.deadlines import Deadlines
from celery_fair.worker.lanes import Lane

PROBE_SECONDS = 1.0
"""Between two looks at a message that may wait for ever, at least."""

PROBE_CREDIT = 1
"""What a lane may pull to look at it."""


class Probing:
    """Pulls the oldest message of a queue that has not been empty for as long as one may wait.

    If it is overdue it is failed, and the next is looked at; else it goes back, where that costs
    nothing, and so may all that came after it still wait.
    """

    def __init__(self, arrivals: Arrivals, grant: Callable[[], None]) -> None:
        self.deadlines = Deadlines({})
        self.kinds: frozenset[Kind] = frozenset()
        """Of the lanes whose oldest message at the broker may be overdue."""
        self._arrivals = arrivals
        self._grant = grant

    def look(self, lanes: Mapping[Kind, Lane], now: float) -> None:
        """Find out where there may be something to find."""
        shortest = self.deadlines.shortest
        self.kinds = frozenset(
            kind
            for kind, lane in lanes.items()
            if lane.doubtful and not lane.paused and lane.may_be_overdue(shortest(kind, now), now)
        )

    def credit(self, lane: Lane, allowed: int, kinds: frozenset[Kind]) -> int:
        """What a lane may hold, given what the policy allows it."""
        lane.probing = lane.kind in kinds and allowed <= 0
        return PROBE_CREDIT if lane.probing else allowed

    def ends(self, lane: Lane, message: Any) -> bool:
        """Whether what a probe has found may still wait; then there are no more for a while."""
        epoch, now = time.time(), monotonic()
        _, ready_at, said, _ = self._arrivals.stamps(message.headers, epoch)
        task, id = (str(message.headers.get(name)) for name in ("task", "id"))
        deadline = self.deadlines.of(lane.kind, task, id, message, said, epoch - ready_at, now)
        if deadline is not None and deadline.at <= now:
            return False
        if deadline is None:
            lane.probe_at = now + max(self.deadlines.shortest(lane.kind, now), PROBE_SECONDS)
        else:
            lane.probe_at = deadline.at
        self.deadlines.gave_back(id)
        self.kinds -= {lane.kind}
        self._grant()
        return True
