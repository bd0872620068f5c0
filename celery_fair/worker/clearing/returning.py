"""What waits here to be cleared, and had better go back to the broker, for another worker."""

from __future__ import annotations

import math
from time import monotonic
from typing import TYPE_CHECKING

from celery_fair.worker.clearing.places import IDLE_SECONDS
from celery_fair.worker.clearing.waiting import Waiting

if TYPE_CHECKING:
    from celery_fair.worker.clearing.keeper import Keeper
    from celery_fair.worker.dispatcher import Dispatcher


class Returning:
    """Gives back what waits in the lanes' rooms in vain; called in the loop, without the lock."""

    def __init__(self, dispatcher: Dispatcher, keeper: Keeper | None) -> None:
        self._dispatcher = dispatcher
        self._keeper = keeper

    def give_back(self, hold_seconds: float, longest_seconds: float, others_free: bool) -> None:
        """Return to the broker what waits here in vain, or for longer than it would bear.

        And what others have free slots for, while there is none here. Not where nobody has: it
        would come back, go round in circles, and begin each time at the end of the line.
        """
        dispatcher, now = self._dispatcher, monotonic()
        is_busy = others_free and self._has_been_busy(hold_seconds, now)
        busy_before = now - hold_seconds if is_busy else -math.inf
        for kind, lane in dispatcher.lanes.items():
            if not lane.uncleared:
                continue
            with dispatcher.lock:
                before = now if lane.paused else now - longest_seconds
                found = [
                    one
                    for one in lane.uncleared.values()
                    if one.received_at < before
                    or (one.received_at < busy_before and one.not_before <= now)
                    or dispatcher.pausing.is_paused(one.request)
                    or self._is_in_vain(one, now)
                ]
            window = dispatcher.windows[kind]
            dispatcher.giving_back.uncleared(lane, window, found, now - longest_seconds)

    def _has_been_busy(self, seconds: float, now: float) -> bool:
        """Whether all slots are taken, and none of them by what has just begun.

        Else a worker of one slot would give all back with each short task; those who took it would
        do the same with the next, and have no time for anything else.
        """
        taken = list(self._dispatcher.slots)  # by the policy's books one that has ended still runs
        if len(taken) < self._dispatcher.policy.slots:
            return False
        return all(now - slot.started_at >= seconds for slot in taken)

    def _is_in_vain(self, waiting: Waiting, now: float) -> bool:
        """Whether only another worker may run it: in an outage this one may have no part."""
        keeper = self._keeper
        if keeper is None or keeper.without.isdisjoint(waiting.uses):
            return False
        return now - waiting.received_at >= IDLE_SECONDS
