"""Of two copies of one task's message the first to start runs, and the other is dropped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

from celery_fair.errors import SettingsError
from celery_fair.headers import FairHeader
from celery_fair.identity import scripts
from celery_fair.identity.scripts import DONE, LEASE_SECONDS, OVER, RETRYING, WAITING
from celery_fair.observe.endings import CANCELLED, LOST, REQUEUED, RETRIED, SUCCEEDED, YIELDED
from celery_fair.state import State, StateAway
from celery_fair.worker import internals
from celery_fair.worker.noting import Noting
from celery_fair.worker.outcomes import unsaid
from celery_fair.worker.slots import Slots

logger = logging.getLogger(__name__)

RENEW_SECONDS = LEASE_SECONDS / 3
STOP_SECONDS = 1.0

ENDINGS: Final[Mapping[str, str]] = {
    SUCCEEDED: DONE,
    RETRIED: RETRYING,
    YIELDED: RETRYING,
    REQUEUED: WAITING,
    CANCELLED: WAITING,  # by a lost connection: the broker gives it out again
}
"""What an outcome means for the request; any other ends it, and the next to send it runs anew."""


class Copies:
    """Asks whether a marked message may run, and tells how it gets on.

    Asked in the loop, as the task would start: then the first to start is the one that runs, and a
    task that was moved to the front is not held back by its first message in another worker. It is
    one round trip for a marked message and none for others. Where the state doesn't answer within
    half a second, or has not lately, the task runs: twice is better than never.
    """

    def __init__(self, state: Callable[[], State]) -> None:
        self.seen = False
        """Whether there was a marked message ever: the one look that all others pay for."""
        self.unasked = 0
        """Marked tasks that ran without being asked for, as the state was away."""
        self._state = state
        self._noting = Noting(state)
        self._started: dict[Any, float] = {}
        """Requests that may run, or do, and when that was last told."""
        self._has_none = False

    def mark(self, request: Any, copy: str) -> None:
        """Note which copy a request is."""
        request.fair_copy = copy
        self.seen = True

    def may_run(self, request: Any) -> bool:
        """Whether a request may run; true for all that are not marked."""
        copy = request.__dict__.get("fair_copy")
        if copy is None or self._has_none:
            return True
        try:
            state = self._state()
            if state.is_away:  # the notes find out when it is back
                raise StateAway
            may_run = bool(state.call(scripts.start(request.id, copy, _attempt(request))))
        except StateAway:
            self.unasked += 1
            may_run = True
        except SettingsError as error:
            self._has_none = True
            logger.warning("celery-fair: marked messages all run in this worker: %s", error)
            return True
        if may_run:
            self._started[request] = monotonic()
            self._noting.begin_to_look()
        return may_run

    def drop(self, request: Any) -> None:
        """Discard a request that may not run; the other copy tells of their task."""
        id, started = request.id, list(self._started)  # the noting thread takes out what has ended
        internals.drop_copy(request, next((one for one in started if one.id == id), None))

    def dropped(self, id: str, copy: str, attempt: object) -> None:
        """A task has ended that was not asked for: Celery has discarded it as it came."""
        self._note(id, copy, attempt if isinstance(attempt, int) else 0, OVER)

    def tick(self, slots: Slots, now: float) -> None:
        """Tell what has ended, and that the rest goes on."""
        for request, told_at in list(self._started.items()):
            ending = _ending(request, slots)
            id, copy, attempt = request.id, request.fair_copy, _attempt(request)
            if ending is not None:
                self._started.pop(request, None)  # by the noting thread too, as the loop ends
                self._note(id, copy, attempt, ending)
            elif now - told_at >= RENEW_SECONDS:
                self._started[request] = now
                self._noting.note((id, copy, attempt), scripts.renew(id, copy, attempt))

    def loop_ends(self, slots: Slots) -> None:
        """The loop ticks no more, and what runs goes on: a warm shutdown may wait for hours."""
        self._noting.meanwhile(lambda: self.tick(slots, monotonic()))
        if self._started:
            self._noting.begin_to_look()

    def loop_begins(self, slots: Slots, *, runs_tasks: bool) -> None:
        """The loop ticks, at first or after a reconnect; not while it runs a task itself."""
        if runs_tasks:
            self.loop_ends(slots)
        else:
            self._noting.meanwhile(None)

    def stop(self, slots: Slots) -> None:
        """The worker ends, and its pool has."""
        if self.seen and not self._has_none:
            self.tick(slots, monotonic())
            self._noting.stop(STOP_SECONDS)

    def _note(self, id: str, copy: str, attempt: int, ending: str) -> None:
        if not self._has_none:
            self._noting.note((id, copy, attempt), scripts.end(id, copy, attempt, ending))


def _ending(request: Any, slots: Slots) -> str | None:
    """What has become of a request that may run; None while it waits, runs, or is being failed."""
    slot = request.__dict__.get("fair_slot")
    if slot is None:
        return None if internals.is_known(request) else OVER
    if slot in slots.taken:
        return None
    outcome = slot.outcome or unsaid(request)
    if outcome == LOST:
        return WAITING if internals.comes_again(request) else OVER
    return ENDINGS.get(outcome, OVER)


def _attempt(request: Any) -> int:
    """How many messages came before this one of the same task: retries, and continuations."""
    headers = internals.message_of(request).headers
    retries, said = headers.get("retries"), FairHeader.read(headers)
    return (retries if isinstance(retries, int) else 0) + (said.yields if said else 0)
