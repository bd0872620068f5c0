"""How a task can end, in the words of log, facts and metrics."""

from __future__ import annotations

from typing import Final

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
RETRIED: Final = "retried"
YIELDED: Final = "yielded"
REJECTED: Final = "rejected"
REQUEUED: Final = "requeued"
IGNORED: Final = "ignored"
TIME_LIMIT: Final = "time_limit"
REVOKED: Final = "revoked"
CANCELLED: Final = "cancelled"
LOST: Final = "lost"

OUTCOMES: Final = (
    SUCCEEDED, FAILED, RETRIED, YIELDED, REJECTED, REQUEUED, IGNORED, TIME_LIMIT, REVOKED,
    CANCELLED, LOST,
)  # fmt: skip
"""Yielded: it goes on later. Lost: its child died, or nobody ever said how it ended."""

EXPIRED: Final = "expired"
TIMED_OUT: Final = "timed_out"
DUPLICATE: Final = "duplicate"
"""A second copy of a message, whose task was started by the first."""
REFUSED: Final = "refused"
"""By the hook before batch tasks."""
DROPS: Final = (REVOKED, EXPIRED, TIMED_OUT, REFUSED, DUPLICATE)
"""How a task can end without a slot."""
