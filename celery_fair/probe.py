"""The task of `fair bench` that holds a slot for a given time; importing it registers it.

Workers that are to run it are started with ``-I celery_fair.probe``; they need no `Fair`. All
others have what the bench asks for unless it is told otherwise: Celery's own ``celery.accumulate``.
"""

from __future__ import annotations

import time
from typing import Final

from celery import shared_task

NAME: Final = "celery_fair.probe"
LONGEST_SECONDS: Final = 60.0
"""However long a message asks for: whoever may publish can't hold a slot for ever."""


@shared_task(name=NAME, ignore_result=True)
def probe(seconds: float = 0.0) -> float:
    """Hold a slot for so many seconds; return how long it was held, in seconds."""
    began = time.monotonic()
    time.sleep(min(max(float(seconds), 0.0), LONGEST_SECONDS))
    return time.monotonic() - began
