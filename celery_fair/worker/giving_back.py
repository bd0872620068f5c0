"""Returns held messages to the broker, where they have waited here for too long or in vain."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from time import monotonic
from typing import Any

from celery_fair.observer import Observers
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.worker import internals, telling
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.lanes import Held, Lane
from celery_fair.worker.probing import Probing
from celery_fair.worker.windows import Window

logger = logging.getLogger(__name__)

REFUSED_SECONDS = 5.0
"""After so long a broker that refuses to take a message back is tried again."""


class GivingBack:
    """Others may start what is held here; and a broker loses patience in the end.

    With credit or without: a worker that is the fleet's reserve may hold a batch message that it
    will soon owe, and then nothing interactive comes, so that it never does.
    """

    def __init__(self, lock: AbstractContextManager[Any], probing: Probing) -> None:
        self.counts = dict.fromkeys(KINDS, 0)
        self.observers = Observers()
        self._lock = lock
        self._probing = probing
        self._refused_until = -math.inf

    def overdue(
        self,
        lanes: Mapping[Kind, Lane],
        windows: Mapping[Kind, Window],
        hold_seconds: float,
        longest_seconds: float,
    ) -> None:
        """Return what was held for so long; after the longest also what goes back at some cost."""
        now = monotonic()
        for kind, lane in lanes.items() if now >= self._refused_until else ():
            window = windows[kind]
            takes = partial(_must_go_back, window, now - longest_seconds)
            with self._lock:
                # What is paused waits at the broker: there is nothing here that it waits for.
                overdue = lane.take_held_before(now if lane.paused else now - hold_seconds, takes)
                aside = lane.take_aside_before(now, takes)
            # Each goes before the last, where it goes to the front: the oldest must be the last.
            turned = window.gives_back_to_the_front
            refused = self._return_all(kind, sorted(overdue, reverse=turned))
            refused_aside = self._return_all(kind, sorted(aside, reverse=turned))
            with self._lock:
                lane.hold_again(refused, refused_aside)

    def uncleared(
        self, lane: Lane, window: Window, found: Sequence[Waiting], overdue_before: float
    ) -> None:
        """Return what waits until it is cleared; by one that the broker refuses it stays here."""
        now = monotonic()
        if now < self._refused_until:
            return
        with self._lock:  # where timers have a thread of their own, one may have its place by now
            found = [
                one
                for one in found
                if lane.uncleared.get(one.key) is one
                and _must_go_back(window, overdue_before, one.held)
            ]
            lane.take_uncleared(found, now)
        turned = window.gives_back_to_the_front
        ordered = sorted(found, key=lambda waiting: waiting.held, reverse=turned)
        refused = self._return_all(lane.kind, [waiting.held for waiting in ordered])
        with self._lock:
            for waiting in found:
                if waiting.held in refused:
                    lane.put_off(waiting)

    def _return_all(self, kind: Kind, found: list[Held]) -> list[Held]:
        """Return those that the broker doesn't take now: a full Redis, say."""
        for number, held in enumerate(found):
            try:
                self._return(kind, held)
            except Exception as error:
                message = internals.message_of(held.request)
                if internals.is_connection_lost(message, error):
                    raise
                internals.remember_request(held.request)
                self._refused_until = monotonic() + REFUSED_SECONDS
                logger.warning(
                    "celery-fair: the broker takes back nothing now (%r); %d %s tasks wait here",
                    error,
                    len(found) - number,
                    kind,
                )
                return found[number:]
        return []

    def _return(self, kind: Kind, held: Held) -> None:
        internals.forget_request(held.request)
        internals.return_to_broker(internals.message_of(held.request))
        self._probing.deadlines.gave_back(held.request.id)
        self.counts[kind] += 1
        if "given_back" in self.observers.hooks:
            self.observers.tell("given_back", telling.of_held(kind, held))


def _must_go_back(window: Window, overdue_before: float, held: Held) -> bool:
    """Because the broker would do worse, or since it costs nothing."""
    return held.received_at < overdue_before or window.can_give_back(
        internals.message_of(held.request)
    )
