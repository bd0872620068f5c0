"""What has changed in a worker by an order."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from celery_fair.steering import PauseName

RUNNING, PAUSED = "running", "paused"
IN_SERVICE, DRAINING = "in service", "draining"
WORKER = "worker"


class Change(NamedTuple):
    """``what`` is a setting, a kind, ``batch from <queue>``, or the worker.

    ``before`` and ``after`` are values of the setting, or words; ``at`` is when it was ordered, in
    epoch seconds.
    """

    what: str
    before: Any
    after: Any
    by: str
    at: float

    def __str__(self) -> str:
        return f"{self.what} {said(self.before)} → {said(self.after)}"


def of_pause(what: PauseName, paused: bool, by: str, at: float) -> Change:
    """A kind, or a queue, was paused or resumed."""
    words = (RUNNING, PAUSED) if paused else (PAUSED, RUNNING)
    return Change(str(what), *words, by, at)


def said(value: Any) -> str:
    """A value as one would type it."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)
