"""What only a look at every tick can tell: slots that stood idle, and the gate's history."""

from __future__ import annotations

from collections import deque
from typing import Final

from celery_fair.observer import GateChange
from celery_fair.policy.idle import Idle, why_idle
from celery_fair.policy.kinds import KINDS
from celery_fair.policy.load import Mode
from celery_fair.policy.waiting import Scene

CHANGES: Final = 50
"""Changes of the gate that are kept."""

LONGEST_TICK_SECONDS: Final = 5.0
"""A longer pause between two ticks is a loop that stood still, and nobody knows what was idle."""


class Record:
    """Kept by a worker's tick, a few times a second."""

    def __init__(self, now: float) -> None:
        self.idle_seconds = dict.fromkeys(Idle, 0.0)
        """Slot-seconds in which a slot was free though something waited, by reason."""
        self.slot_seconds = dict.fromkeys(KINDS, 0.0)
        """The most that was ever told of the slot-seconds of each kind."""
        self.mode_seconds = dict.fromkeys(Mode, 0.0)
        """The same of the seconds in each mode."""
        self.changes: deque[GateChange] = deque(maxlen=CHANGES)
        self._at = now

    def tick(self, scene: Scene, now: float) -> None:
        """Charge the time since the last tick to what is found now."""
        passed, self._at = now - self._at, now
        if passed > LONGEST_TICK_SECONDS:
            return
        found = why_idle(scene)
        if found is not None:
            reason, slots = found
            self.idle_seconds[reason] += slots * passed
