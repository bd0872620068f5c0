"""The sensor: counts what waits at the broker, without ever holding up the loop."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from celery_fair.worker.links import TIMEOUT_SECONDS, Answer, Link

logger = logging.getLogger(__name__)

SLOWEST = 4
"""Times the interval, when nothing has changed for long."""
STALE_SECONDS = 3.0
"""A count older than this is no count: better unknown than wrong."""
GIVE_UP_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 30.0


class Sensor:
    """Asks at most once an interval, reads the answer when it is there, and forgets it in time.

    While a question is open there is no second one. A link that fails is closed and made again
    with a growing pause; meanwhile the count is unknown (``None``), which the policy can live with.
    """

    def __init__(self, make_link: Callable[[], Link], interval_seconds: float) -> None:
        self._make_link = make_link
        self._link: Link | None = None
        self._hub: Any = None
        self._watched: int | None = None
        self._spawn: Callable[[Callable[[], None]], Any] | None = None
        self.interval_seconds = interval_seconds
        self._pace = 1.0
        self._next_at = 0.0
        self._asked_at: float | None = None
        self._failures_in_a_row = 0
        self.on_answer: Callable[[Answer], None] = lambda answer: None
        self.ready: dict[str, int] | None = None
        self.read_at = 0.0
        self.reads = 0
        self.failures = 0
        self.latency_seconds = 0.0

    def attach(self, hub: Any) -> None:
        """Have answers read by this event loop.

        What it watches is a descriptor of our own. A client library closes its own when a read
        fails; epoll would then go on telling of a connection that forked children still have open,
        under a number that the next link may be given.
        """
        self._unwatch()
        self._hub = hub
        if self._link is not None and not self._link.answers_at_once:
            self._watched = os.dup(self._link.fileno())
            hub.add_reader(self._watched, self._on_readable)

    def spawn_with(self, spawn: Callable[[Callable[[], None]], Any]) -> None:
        """Ask and read in a greenlet of its own, where there is no event loop."""
        self._spawn = spawn

    def count(self, queues: Iterable[str], now: float) -> int | None:
        """Messages ready in these queues as of the last answer; ``None`` if that is too old."""
        if self.ready is None or now - self.read_at > STALE_SECONDS:
            return None
        return sum(self.ready.get(queue, 0) for queue in queues)

    def tick(
        self, queues: list[str], now: float, *, urgent: bool, member: tuple[str, str] | None
    ) -> bool:
        """Ask if it is time to; whether it did. ``urgent`` keeps the pace at its fastest."""
        if self._asked_at is not None:
            if now - self._asked_at > GIVE_UP_SECONDS:
                self._fail(TimeoutError(f"no answer for {GIVE_UP_SECONDS:g} s"))
            return False
        if urgent and not self._failures_in_a_row:
            self._next_at = min(self._next_at, self.read_at + self.interval_seconds * 1.25)
            self._pace = 1.0
        if now < self._next_at and (member is None or self._failures_in_a_row):
            return False
        self._asked_at = now
        self._next_at = now + self.interval_seconds * self._pace * random.uniform(1.0, 1.25)
        if self._spawn is not None:
            self._spawn(lambda: self._ask_and_wait(queues, member))
        else:
            self._ask(queues, member)
        return True

    def _ask(self, queues: list[str], member: tuple[str, str] | None) -> None:
        try:
            link = self._open()
            answer = link.ask(queues, member if link.has_members else None)
        except Exception as error:
            self._fail(error)
            return
        if answer is not None:
            self._answered(answer)

    def _ask_and_wait(self, queues: list[str], member: tuple[str, str] | None) -> None:
        self._ask(queues, member)
        if self._asked_at is None or self._link is None:
            return
        try:
            answer = self._link.receive(TIMEOUT_SECONDS)
        except Exception as error:
            self._fail(error)
            return
        if answer is None:
            self._fail(TimeoutError(f"no answer for {TIMEOUT_SECONDS:g} s"))
        else:
            self._answered(answer)

    def _open(self) -> Link:
        if self._link is None:
            self._link = self._make_link()
            if self._hub is not None:
                self.attach(self._hub)
        return self._link

    def _on_readable(self) -> None:
        link = self._link
        if link is None:
            return
        if self._asked_at is None and not link.speaks_unasked:
            # Closed for idleness, with nothing to be read: the next question makes another.
            self._drop()
            return
        try:
            answer = link.receive()
        except Exception as error:
            self._fail(error)
            return
        if answer is not None:
            self._answered(answer)

    def _answered(self, answer: Answer) -> None:
        if self._asked_at is not None:
            self.read_at = monotonic()
            self.latency_seconds = self.read_at - self._asked_at
            self._asked_at = None
            self.reads += 1
            ready = dict(answer.ready)
            self._pace = 1.0 if ready != self.ready else min(self._pace * 1.5, SLOWEST)
            self.ready = ready
            if self._failures_in_a_row:
                logger.info("celery-fair: the sensor reads the queues again")
                self._failures_in_a_row = 0
        try:
            self.on_answer(answer)
        except Exception:  # this is a callback of the loop, which would end the worker
            logger.exception("celery-fair: an answer of the broker could not be used")

    def _fail(self, error: BaseException) -> None:
        self._asked_at = None
        self.failures += 1
        self._failures_in_a_row += 1
        pause = min(0.5 * 2**self._failures_in_a_row, MAX_BACKOFF_SECONDS)
        self._next_at = monotonic() + pause * random.uniform(0.5, 1.0)
        if self._failures_in_a_row == 1:
            logger.warning(
                "celery-fair: the sensor can't read the queues (%r); backlogs are unknown", error
            )
        self._drop()

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        self._unwatch()
        try:
            link.close()
        except Exception as error:
            logger.debug("closing the sensor's link: %r", error)

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._hub.remove(self._watched)
            os.close(self._watched)
            self._watched = None

    def leave(self, name: str) -> None:
        """Take a member out of the fleet, if the broker can be reached."""
        if self._link is None:
            return
        try:
            self._link.leave(name)
        except Exception as error:
            logger.debug("leaving the fleet: %r", error)

    def forget(self, names: list[str]) -> None:
        """Remove what is left of members that are silent for long."""
        if self._link is None or not names:
            return
        try:
            self._link.forget(names)
        except Exception as error:
            logger.debug("forgetting members of the fleet: %r", error)

    def close(self) -> None:
        self._drop()
