"""What the policy is told at a tick, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Mode(str, Enum):
    """Whether batch may use all it finds free, or only what it is guaranteed."""

    OPEN = "open"
    PROTECTED = "protected"


@dataclass(frozen=True, slots=True)
class Load:
    """One tick's view of what waits and runs. A backlog of ``None`` is unknown: nobody could count.

    Backlogs are what is ready at the broker plus what this worker holds. All times are seconds on
    this worker's monotonic clock, except ``batch_oldest_wait_seconds``, which counts since a task
    was ready, on whatever clock says so: it only ages the share, within bounds. A lane is *empty*
    when it has unfilled credit and nothing has arrived for a round trip.
    """

    interactive_backlog: int | None
    batch_backlog: int | None
    interactive_oldest_wait_seconds: float = 0.0
    batch_oldest_wait_seconds: float = 0.0
    interactive_oldest_run_seconds: float = 0.0
    batch_oldest_run_seconds: float = 0.0
    interactive_lane_empty: bool = False
    batch_lane_empty: bool = False
    interactive_limited: int = 0
    """Of the interactive backlog so many wait for their rate: no slot would help them."""
    engine_pressure: float | None = None
    """How much waits in the engine behind the tasks, 1 being as much as is fine (`Engine`)."""

    @property
    def batch_waits(self) -> bool:
        """Whether batch wants slots; unknown counts as yes, so that blindness starves nobody."""
        if self.batch_backlog is None:
            return not self.batch_lane_empty
        return self.batch_backlog > 0

    @property
    def interactive_wanting(self) -> int | None:
        """How many interactive tasks wait for a slot; ``None`` if unknown."""
        known = self.interactive_backlog
        return None if known is None else max(known - self.interactive_limited, 0)

    @property
    def interactive_waits(self) -> bool:
        """Whether interactive tasks wait; unknown counts as yes unless the lane came up empty."""
        if self.interactive_oldest_wait_seconds > 0:
            return True
        if self.interactive_backlog is None:
            return not self.interactive_lane_empty
        return self.interactive_wanting != 0


class Credits(NamedTuple):
    """How many messages each lane may hold: received, not yet given to the pool."""

    interactive: int
    batch: int
