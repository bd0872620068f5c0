"""How fast a shared resource is used after it has refused: less at once, and more by and by.

Additive increase and multiplicative decrease (Chiu and Jain, *Analysis of the Increase and Decrease
Algorithms for Congestion Avoidance in Computer Networks*, 1989, section 2): users who don't know of
each other come to fair parts of what there is, without being told how much that is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DECREASE: Final = 0.5
"""What is left of the rate after a refusal."""

INCREASE_PER_SECOND: Final = 1.0 / 120.0
"""A minute from half to all: the minute in which providers count."""

LEAST: Final = 1.0 / 16.0
"""The rate never falls below, or nobody would notice that the resource serves again."""

ONE_BURST_SECONDS: Final = 2.0
"""Refusals so close are one: requests that were under way together are refused together."""

SHUT_SECONDS: Final = 1.0
"""How long batch gets nothing where the resource doesn't say; twice as long at each next time."""

LONGEST_DEFAULT_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 3600.0
"""Bounds what a resource says: a bad header must not shut batch out for a day."""

CALM_SECONDS: Final = 60.0
"""After so long without a refusal the next one is the first again."""

NEVER: Final = -1e9


class Pace(NamedTuple):
    """The rate of a resource, as a value of a moment; times in seconds of one clock."""

    rate: float = 1.0
    """A part of places and budgets, in (0, 1]."""
    at: float = 0.0
    cut_at: float = NEVER
    """When it was last lowered."""
    shut_until: float = NEVER
    """Until then batch gets nothing."""
    strikes: int = 0
    """How often it was lowered since it was calm."""

    def later(self, now: float) -> Pace:
        """Return it at ``now``: the rate rises from when batch is let in again."""
        since = max(self.at, self.shut_until)
        risen = self.rate + max(now - since, 0.0) * INCREASE_PER_SECOND
        return self._replace(rate=min(risen, 1.0), at=max(now, self.at))

    def refused(self, now: float, retry_after_seconds: float | None) -> Pace:
        """Return it after a refusal, which may say for how long to stay away."""
        pace = self.later(now)
        if now - pace.cut_at >= ONE_BURST_SECONDS:
            calm = now - max(pace.cut_at, pace.shut_until) >= CALM_SECONDS
            pace = pace._replace(
                rate=max(pace.rate * DECREASE, LEAST),
                cut_at=now,
                strikes=1 if calm else pace.strikes + 1,
            )
        if retry_after_seconds is None:
            doubled = SHUT_SECONDS * 2.0 ** min(pace.strikes - 1, 16)
            seconds = min(doubled, LONGEST_DEFAULT_SECONDS)
        else:
            seconds = min(max(retry_after_seconds, 0.0), LONGEST_SECONDS)
        return pace._replace(shut_until=max(pace.shut_until, now + seconds))

    def is_shut(self, now: float) -> bool:
        """Whether batch gets nothing."""
        return now < self.shut_until
