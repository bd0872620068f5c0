"""Asking the store again while it is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from celery_fair.errors import StateAway

FIRST_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 2.0

Answer = TypeVar("Answer")


def insist(ask: Callable[[], Answer], seconds: float) -> Answer:
    """Return the answer, asked for again and again for ``seconds``; then raise `StateAway`."""
    until = time.monotonic() + seconds
    pause = FIRST_SECONDS
    while True:
        try:
            return ask()
        except StateAway:
            if time.monotonic() + pause > until:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_SECONDS)
