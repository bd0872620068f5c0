"""Wait for a fact, never for a length of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_SECONDS = 0.02

PATIENCE_SECONDS = 30.0
"""How long a test waits if it says nothing else: the fact costs no time where it comes true, and a
machine on which three such tests run at once may take ten seconds to start a worker's pool.
"""

Fact = TypeVar("Fact")


class NotInTimeError(AssertionError):
    """A fact that a test waited for did not come true in time."""


def wait_until(
    fact: Callable[[], Fact],
    what: str | Callable[[], str] = "a fact",
    *,
    timeout: float = PATIENCE_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> Fact:
    """The first true value of ``fact()``; ``NotInTimeError`` after ``timeout`` seconds.

    ``what`` ends the sentence "waited 30 s for …"; a callable is asked only on failure, so it
    can say what was there instead.
    """
    end = time.monotonic() + timeout
    while not (value := fact()):
        if time.monotonic() >= end:
            raise NotInTimeError(f"waited {timeout:g} s for {what() if callable(what) else what}")
        time.sleep(poll_seconds)
    return value
