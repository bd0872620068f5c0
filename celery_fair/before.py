"""What a hook before batch tasks is told of a task, and what it may answer (``before_batch``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from celery_fair.errors import BadOption

__all__ = ("Admit", "Delay", "HeldTask", "Refuse", "Reroute")

#: The longest delay that an answer may ask for, in seconds: a week.
LONGEST_SECONDS: Final = 7 * 86_400.0

#: The longest reason, in characters; it is the message of the task's exception.
LONGEST_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A batch task that a worker holds, and that would take a slot next."""

    name: str
    id: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    tenant: str | None
    queue: str | None
    waited_seconds: float
    """Since it was ready, by the publisher's clock and this host's."""
    retries: int


@dataclass(frozen=True, slots=True)
class Admit:
    """Let it run, as soon as it is its turn."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Ask again after so many seconds; meanwhile it takes no slot."""

    seconds: float

    def __post_init__(self) -> None:
        seconds = self.seconds
        known = type(seconds) in (int, float) and math.isfinite(seconds)
        if not known or not 0 < seconds <= LONGEST_SECONDS:
            raise BadOption("Delay(…)", "seconds over 0, and at most a week", seconds)


@dataclass(frozen=True, slots=True)
class Reroute:
    """Send it to another queue, as the same task: id, arguments and headers stay."""

    queue: str

    def __post_init__(self) -> None:
        if type(self.queue) is not str or not self.queue:
            raise BadOption("Reroute(…)", "the name of a queue", self.queue)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Have it fail with `TaskRefused`; it is never run."""

    reason: str

    def __post_init__(self) -> None:
        if type(self.reason) is not str or not self.reason:
            raise BadOption("Refuse(…)", "a reason, for whoever waits for the result", self.reason)


Answer = Admit | Delay | Reroute | Refuse
