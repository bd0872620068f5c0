"""Where a task can be: one word each."""

from __future__ import annotations

from enum import Enum


class Place(str, Enum):
    """Where a task is; the words are stable: programs read them in ``--json``."""

    RUNNING = "running"
    HELD = "held"
    """In a worker, for a slot."""
    RATE_LIMITED = "rate_limited"
    CLEARING = "clearing"
    """In a worker, for a place, a budget or the word of a hook."""
    SCHEDULED = "scheduled"
    """In a worker, for its ETA."""
    TIMING_OUT = "timing_out"
    RECEIVED = "received"
    """In a worker, in Celery's own order."""
    BROKER = "broker"
    UNACKNOWLEDGED = "unacknowledged"
    """Given out to a worker that doesn't answer."""
    ENDED = "ended"
    """It had a slot, and left it."""
    DROPPED = "dropped"
    """It ended without a slot."""
    GIVEN_BACK = "given_back"
    """A worker has given it back to the broker."""
    UNKNOWN = "unknown"
