"""How long each task may wait for a slot: its call says it, else the task, else its kind."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from celery_fair.headers import FairHeader
from celery_fair.options import known_timeout
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.steering import Pause
from celery_fair.worker.internals import is_redelivered, queue_of

SAID_SECONDS: Final = 60.0
"""How long after a call with a timeout of its own others like it are expected."""

GIVEN_BACK: Final = 10_000
"""So many ids are kept of messages that were given back; an id is what Celery makes, or shorter."""


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
        self._of_kind = {kind: of_kind.get(kind) for kind in KINDS}
        self._of_task: dict[str, float] = {}
        self._late: set[str] = set()
        self._given_back: OrderedDict[str, None] = OrderedDict()
        self._declared = {kind: self._of_kind[kind] or math.inf for kind in KINDS}
        self._said: dict[Kind, tuple[float, float]] = {}
        self.are_declared = any(seconds is not None for seconds in of_kind.values())
        """Whether a task may have one though its call says nothing."""
        self.pauses: Sequence[Pause] = ()
        """Of kinds and queues, the last ones, in the order in which they began: waiting for their
        end is no wait for a slot.
        """

    def reconfigure(self, of_kind: Mapping[Kind, float | None]) -> None:
        """Allow each kind another wait, from the next message on."""
        self._of_kind = {kind: of_kind.get(kind) for kind in KINDS}
        self._declared = {kind: self._of_kind[kind] or math.inf for kind in KINDS}
        self.are_declared = any(seconds is not None for seconds in of_kind.values())
        self._declare_tasks()

    def learn(self, tasks: Mapping[str, Any]) -> None:
        """Look up what tasks declare; raises `BadOption` for what is no number of seconds."""
        self._late = {name for name, task in tasks.items() if task.acks_late}
        for name, task in tasks.items():
            said = getattr(task, "fair_timeout_seconds", None)
            if said is not None:
                self._of_task[name] = known_timeout(said, f"fair_timeout_seconds of {name}")
        self._declare_tasks()

    def _declare_tasks(self) -> None:
        if self._of_task:
            self.are_declared = True
            least = min(self._of_task.values())  # each may be called as either kind
            self._declared = {kind: min(self._declared[kind], least) for kind in KINDS}

    def shortest(self, kind: Kind, now: float) -> float:
        """The shortest that may be met in a lane, in seconds, by what calls have said of late."""
        seconds, until = self._said.get(kind, (math.inf, now))
        return min(self._declared[kind], seconds) if now < until else self._declared[kind]

    def of(
        self,
        kind: Kind,
        task: str,
        id: str,
        message: Any,
        said: FairHeader | None,
        waited_seconds: float,
        now: float,
    ) -> Deadline | None:
        """The deadline of a task that has waited for so long; ``None``: it may wait for ever.

        ``said`` is its header, if its call has said how long. A message that the broker gives out
        again may, with a late ack, have run until its worker died, and was given to a pool in time.
        So its wait begins anew, unless it was this worker that gave it back. What has yielded has
        begun in time, and is not thrown away with what it has done.
        """
        if said is not None and said.yields:
            return None
        called = said.timeout_seconds if said is not None else None
        if called is not None:
            self._met(kind, called, now)
        seconds = called or self._of_task.get(task) or self._of_kind[kind]
        if seconds is None:
            return None
        if task in self._late and id not in self._given_back and is_redelivered(message):
            waited_seconds = 0.0
        if self.pauses:
            waited_seconds -= self._paused_seconds(kind, message, waited_seconds)
        return Deadline(now + seconds - waited_seconds, seconds)

    def _paused_seconds(self, kind: Kind, message: Any, waited_seconds: float) -> float:
        """How much of a wait until now was in a pause; what two have in common counts once."""
        now, queue = time.time(), queue_of(message)
        seconds, until = 0.0, now - waited_seconds
        for pause in self.pauses:
            if (pause.queue is None and pause.kind == kind) or pause.queue == queue:
                seconds += pause.overlap(until, now)
                until = max(until, now if pause.ended is None else min(pause.ended, now))
        return seconds

    def gave_back(self, id: str) -> None:
        """A message goes back to the broker, and has not run here."""
        self._given_back[id] = None
        if len(self._given_back) > GIVEN_BACK:
            self._given_back.popitem(last=False)

    def _met(self, kind: Kind, seconds: float, now: float) -> None:
        self._said[kind] = (min(seconds, self.shortest(kind, now)), now + SAID_SECONDS)
