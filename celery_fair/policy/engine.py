"""Whether the engine behind the tasks queues, and what is left of batch's share while it does."""

from __future__ import annotations

from typing import Final

FULL: Final = 1.0
"""A pressure above it: more waits in the engine than is fine, so that batch gives way."""

RELAXED: Final = 0.5
"""The gate opens again at half of it, as its other signals do."""


class Engine:
    """The last pressure that a probe has told, with hysteresis; ``None`` is unknown, and nothing.

    A pressure is a ratio: 0 where nothing waits, 1 where as much does as is fine. Between the two
    thresholds the engine queues if it did before.
    """

    __slots__ = ("pressure", "queueing")

    def __init__(self) -> None:
        self.pressure: float | None = None
        self.queueing = False

    def see(self, pressure: float | None) -> None:
        """Take in what the probe says now."""
        self.pressure = pressure
        if pressure is None or pressure <= RELAXED:
            self.queueing = False
        elif pressure > FULL:
            self.queueing = True

    def share(self, share: float, least: float) -> float:
        """What is left of ``share``: twice the pressure is half the share, down to ``least``."""
        if not self.queueing or self.pressure is None:
            return share
        return max(min(least, share), share / max(self.pressure, FULL))

    @property
    def reason(self) -> str:
        """Why the gate is shut on its account."""
        return f"the engine behind the tasks queues, pressure {self.pressure:.3g} > {FULL:g}"

    @property
    def relief(self) -> str:
        """Why it no longer is."""
        if self.pressure is None:
            return "how full the engine behind the tasks is can't be known any more"
        return "the engine behind the tasks no longer queues"
