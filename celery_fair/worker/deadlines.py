"""How long each task may wait for a slot: its call says it, else the task, else its kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.task import known_timeout


class Deadline(NamedTuple):
    """The moment from which a task is not run any more, and the wait in seconds that it allows.

    ``at`` is on this worker's monotonic clock. How long a task had waited when it came is told by
    two clocks, the publisher's and this host's, as it is for Celery's ``expires``.
    """

    at: float
    seconds: float

    def waited_seconds(self, now: float) -> float:
        return self.seconds + now - self.at


class Deadlines:
    """Finds the deadline of each task that arrives."""

    def __init__(self, of_kind: Mapping[Kind, float | None]) -> None:
        self._of_kind = of_kind
        self._of_task: dict[str, float] = {}
        self.are_declared = any(seconds is not None for seconds in of_kind.values())
        """Whether a task may have one though its call says nothing."""
        self.shortest = {kind: of_kind.get(kind) or math.inf for kind in KINDS}
        """Of all that may be met in a lane, in seconds; grows shorter as calls say so."""

    def learn(self, tasks: Mapping[str, Any]) -> None:
        """Look up what tasks declare; raises `BadOption` for what is no number of seconds."""
        for name, task in tasks.items():
            said = getattr(task, "fair_timeout_seconds", None)
            if said is not None:
                self._of_task[name] = known_timeout(said, f"fair_timeout_seconds of {name}")
        if self._of_task:
            self.are_declared = True
            for kind in KINDS:  # it may be called as either
                self._met(kind, min(self._of_task.values()))

    def of(
        self, kind: Kind, task: str, said: float | None, waited_seconds: float, now: float
    ) -> Deadline | None:
        """The deadline of a task that has waited for so long; ``said`` is what its call has said.

        ``None`` for one that may wait for ever.
        """
        if said is not None:
            self._met(kind, said)
        seconds = said or self._of_task.get(task) or self._of_kind[kind]
        return None if seconds is None else Deadline(now + seconds - waited_seconds, seconds)

    def _met(self, kind: Kind, seconds: float) -> None:
        self.shortest[kind] = min(self.shortest[kind], seconds)
