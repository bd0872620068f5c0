"""When a batch task runs again: exponential backoff, within a budget. `docs/retries.md` has why.

The budget is a token bucket that first attempts fill, as Finagle's ``RetryBudget`` (a fifth, and
some at least) and gRPC's retry throttling (gRFC A6): of what runs, retries are no more than a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

#: Tokens that come by themselves in a minute, so that one failing task of a quiet worker is not
#: held up; and those that there are at the start.
FLOOR: Final = 10.0

#: For how long first attempts are remembered: a burst of retries is at most the budget of those.
MEMORY_SECONDS: Final = 60.0

#: 2 to the power of more than this is beyond every cap, and one day beyond every float.
MOST_DOUBLINGS: Final = 64


def backoff_seconds(base: float, retries: int, cap: float, random: Callable[[], float]) -> float:
    """Return the delay of the next retry, in seconds, after so many retries.

    ``base`` doubles with each retry until ``cap``, which is never under ``base``. Half of it is
    drawn (``random`` returns [0, 1)), "equal jitter" in Brooker, *Exponential Backoff And Jitter*
    (2015): tasks that failed together come back apart, and none at once, as with full jitter.
    """
    delay = min(base * 2.0 ** min(retries, MOST_DOUBLINGS), max(cap, base))
    return delay / 2 + random() * delay / 2


class Bucket(NamedTuple):
    """Tokens, of which a retry takes one; a value of a moment. Times in seconds, monotonic.

    Below zero, that many retries wait for tokens which are still to come.
    """

    tokens: float
    at: float
    since: float
    """When it was new."""
    recent: float = 0.0
    """Tokens a second that first attempts have brought, by an exponential average from nothing."""

    @property
    def income(self) -> float:
        """Tokens a second that are to be expected: a new average knows of its age only."""
        age = max(self.at - self.since, 1.0)
        return FLOOR / 60.0 - self.recent / math.expm1(-age / MEMORY_SECONDS)

    def fed(self, tokens: float, now: float) -> Bucket:
        """Return it after the time until ``now`` and so many tokens of first attempts."""
        elapsed = max(now - self.at, 0.0)
        recent = self.recent * math.exp(-elapsed / MEMORY_SECONDS) + tokens / MEMORY_SECONDS
        most = max(FLOOR, recent * MEMORY_SECONDS)
        left = min(self.tokens + FLOOR / 60.0 * elapsed + tokens, most)
        return Bucket(left, max(now, self.at), self.since, recent)

    def taken(self, now: float, delay: float, longest: float) -> tuple[Bucket, float | None]:
        """Return it without the token of a retry, and the delay of that.

        ``delay``, or until its token should have come; None if that is longer than ``longest``,
        and than ``delay``: too many wait for tokens already.
        """
        bucket = self.fed(0.0, now)
        missing = max(1.0 - bucket.tokens, 0.0)
        wait = missing / bucket.income
        if wait > max(delay, longest):
            return bucket, None
        return bucket._replace(tokens=bucket.tokens - 1.0), max(delay, wait)
