"""How long a message may be held, given the broker's patience, and which run outlasts it."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any

from celery_fair.app import Fair
from celery_fair.doctor.patience import HOLD_PART, SHORT_FOR_RUN, patience
from celery_fair.policy.holding import hold_seconds
from celery_fair.worker import internals
from celery_fair.worker.slots import Slot

logger = logging.getLogger(__name__)


class Holding:
    """Bounds the time that messages are held, and warns once where no bound can help."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._patience = patience(fair)
        self._warned = False

    def connect(self) -> None:
        """The queues are known as the broker has them."""
        self._patience = patience(self._fair)

    @property
    def patience_seconds(self) -> float:
        """After so long the broker takes back what isn't acknowledged; infinite: never."""
        return math.inf if self._patience is None else self._patience.seconds

    @property
    def longest_seconds(self) -> float:
        """After so long a message goes back whatever that costs: the broker would do worse."""
        return HOLD_PART * self.patience_seconds

    def seconds(self, others_free: int, fleet_reserve: int) -> float:
        """After so long a message goes back where that costs nothing."""
        usual = min(self._fair.settings.hold_max_seconds, self.longest_seconds)
        return hold_seconds(usual, others_free, fleet_reserve)

    def look(self, slots: Iterable[Slot], now: float) -> None:
        """Look at what runs now."""
        if not self._warned:
            for slot in slots:
                self.ran(slot.request, now - slot.started_at)

    def ran(self, request: Any, seconds: float) -> None:
        """A task has run for so long, and may run on; an early ack ends the broker's wait."""
        limit = self._patience
        if limit is None or seconds < limit.seconds or self._warned:
            return
        if internals.is_acked_early(request):
            return
        self._warned = True
        logger.warning(
            "celery-fair: %s: %s has run for %.0f s, longer than the %s: %s %s above that. "
            "Said once, for the first such task",
            SHORT_FOR_RUN.id,
            request.name,
            seconds,
            limit.name,
            limit.consequence,
            limit.raise_it,
        )
