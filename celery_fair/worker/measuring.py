"""When to read the queues and when to speak to the fleet, and what came of it."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, Protocol

from celery_fair.policy import Policy
from celery_fair.policy.fleet import FleetView, Member
from celery_fair.policy.kinds import Kind
from celery_fair.worker.fleet import (
    FORGOTTEN_SECONDS,
    LOST_AFTER,
    SAY_SECONDS,
    Fleet,
)
from celery_fair.worker.links import Answer, link_type
from celery_fair.worker.sensor import Sensor

logger = logging.getLogger(__name__)

IDLE_READ_SECONDS = 1.0
"""How often to read for batch alone: nobody waits for that answer."""
LOOK_SECONDS = 0.25
"""How often to add up the fleet, at the most."""
JOIN_SECONDS = 2.0
"""How long a worker that has just started waits for the words of others before it runs batch."""
NEWS = 8
"""So many more or fewer that wait for a place are worth a word before its time."""
NEWS_SECONDS = 0.25
"""How soon after the last word; once between two that come in time, and not in a large fleet."""
ALONE_SECONDS = 10.0
"""After how long without any view to say so."""


class OrdersKnown(Protocol):
    """What operators have ordered, as far as this worker knows."""

    @property
    def version(self) -> str: ...

    def is_behind(self) -> bool: ...


class Measuring:
    """The sensor and the fleet of one worker; both live on the sensor's own connection."""

    def __init__(
        self,
        c: Any,
        policy: Policy,
        interval_seconds: float,
        on_round_trip: Callable[[float], None],
    ) -> None:
        self._c = c
        self._policy = policy
        self._on_round_trip = on_round_trip
        self._connected_at: float | None = None
        self._say_at: float | None = None
        self._news_after = math.inf
        self._told = 0
        self._told_version = ""
        self._looked_at = 0.0
        self._expected = self._failures = 0
        self._forget_seconds = FORGOTTEN_SECONDS * random.uniform(1.0, 2.0)
        self.has_fleet = self._has_heard = self._has_seen = self._has_warned = False
        self.sensor = Sensor(self._make_link, interval_seconds)
        self.sensor.on_answer = self._on_answer
        self.fleet = Fleet(c.hostname)
        self.fleet_workers = 1
        self.others_free = 0
        """Free slots of the other workers, as of their last words."""
        self.is_possible = False
        self.orders: OrdersKnown | None = None
        self.uncleared: Callable[[], Mapping[Kind, int]] | None = None
        """How many wait here for more than a slot, where any may."""

    def connect(self) -> None:
        """There is a connection to the broker, and so a transport."""
        kind_of_link = link_type(self._c.connection)
        self.is_possible = kind_of_link is not None
        if self._c.hub is None:
            is_green = getattr(self._c.pool, "is_green", False)
            self.sensor.spawn_with(self._c.pool.spawn_n if is_green else lambda read: read())
        if self._connected_at is None:
            self._connected_at = monotonic()
            if kind_of_link is not None:
                self.has_fleet = kind_of_link.has_members
                self.fleet.words_a_second = kind_of_link.words_a_second
            self._policy.listen(self.has_fleet, self._connected_at)

    def tick(
        self,
        queues: list[str],
        now: float,
        *,
        interactive_empty: bool,
        batch_empty: bool,
        serves: list[str] | None = None,
    ) -> None:
        """Read the queues, unless idle lanes already tell that they are empty.

        ``serves`` are those of kinds that aren't paused, all if ``None``: with a kind paused here
        the worker is of the fleet of those who don't serve it.
        """
        if not self.is_possible:
            return
        if now - self._looked_at >= (LOOK_SECONDS if self._has_heard else SAY_SECONDS):
            self._look(now)
        if self.sensor.failures != self._failures:
            self._failures, self._say_at = self.sensor.failures, None
        joining = self._say_at is None
        in_time = self._say_at is None or now >= self._say_at
        speak = in_time or self._has_news(now)
        stale = now - self.sensor.read_at >= IDLE_READ_SECONDS
        urgent = not interactive_empty
        if not (speak or urgent or (stale and not batch_empty)):
            return
        version = self._version()
        member = self._word(queues if serves is None else serves) if speak else None
        asked = self.sensor.tick(queues, now, urgent=urgent, member=member)
        if asked and speak:
            self._told_version = version
        if asked and speak and not joining:
            self._say_at = now + self.fleet.say_seconds * random.uniform(0.8, 1.2)
            self._told = self._uncleared()
            self._news_after = now + NEWS_SECONDS if in_time else math.inf

    def count(self, queues: Iterable[str], now: float) -> int | None:
        """Messages ready in these queues, or ``None`` if unknown."""
        return self.sensor.count(queues, now)

    def close(self) -> None:
        """Leave the fleet, and the broker."""
        self.sensor.leave(self.fleet.name)
        self.sensor.close()

    def _has_news(self, now: float) -> bool:
        """Whether others are to hear at once: of orders, or of what waits here for a place.

        A worker that begins starts batch when it has heard the others, and goes by their versions.
        Publishers miss what has left the broker.
        """
        if self.fleet.say_seconds > SAY_SECONDS:
            return False
        if self._version() != self._told_version:
            return True
        if self.uncleared is None or now < self._news_after:
            return False
        return abs(self._uncleared() - self._told) >= max(NEWS, self._told // 4)

    def _version(self) -> str:
        return "" if self.orders is None else self.orders.version

    def _uncleared(self) -> int:
        return 0 if self.uncleared is None else sum(self.uncleared().values())

    def _word(self, serves: list[str]) -> tuple[str, str]:
        me = self._policy.member(self.fleet.name)
        uncleared = None if self.uncleared is None else self.uncleared()
        return self.fleet.name, self.fleet.word(me, serves, self._version(), uncleared)

    def _on_answer(self, answer: Answer) -> None:
        now = monotonic()
        self._on_round_trip(self.sensor.latency_seconds)
        self.fleet.company = answer.company or 0
        if self._say_at is None:
            self._join(now)
        if answer.members:
            self._has_heard = True
            self.fleet.hear(answer.members, now, complete=answer.complete)
            silent = self.fleet.silent(now, self._forget_seconds)
            # Words that the broker keeps would be taken for new ones if they were only forgotten.
            (self.sensor if answer.complete else self.fleet).forget(silent)
        heard = answer.complete or self.fleet.known > self._expected
        if now - self._looked_at >= LOOK_SECONDS or (heard and self._policy.listening):
            self._look(now)
            if heard and not (self.orders is not None and self.orders.is_behind()):
                self._policy.listen(False, now)

    def _join(self, now: float) -> None:
        """A new link has counted heads: speak at once, or within the round of a large fleet."""
        self._expected = self.fleet.company
        round_seconds = self.fleet.say_seconds
        large = round_seconds > SAY_SECONDS
        self._say_at = now + (random.uniform(0.0, round_seconds) if large else 0.0)
        if not self._expected:
            self._policy.listen(False, now)

    def _look(self, now: float) -> None:
        """Add up the fleet as far as it is in sight."""
        self._looked_at = now
        me = self._policy.member(self.fleet.name)
        view = self.fleet.view(me, now)
        self.others_free = _others_free(view, me) if view is not None else 0
        if view is not None:
            self.fleet_workers = view.workers
            self._policy.see_fleet(view, now)
            if self._has_warned:
                logger.info("celery-fair: the fleet is in sight, %d workers", view.workers)
            self._has_seen, self._has_warned = True, False
        else:
            unread = now - self.sensor.read_at
            self._policy.lose_sight(now, cut_off=unread > self.fleet.say_seconds * LOST_AFTER / 2)
        age = now - (self._connected_at or now)
        if age > JOIN_SECONDS:
            self._policy.listen(False, now)
        if view is None and not self._has_warned:
            self._has_warned = self._has_seen or (self.has_fleet and age > ALONE_SECONDS)
            if self._has_warned:
                self._warn()

    def _warn(self) -> None:
        if self._has_seen:
            logger.warning(
                "celery-fair: the other workers are out of sight; this one keeps its place in the "
                "fleet of %d, and does not know what they run",
                self.fleet_workers,
            )
        else:
            logger.warning(
                "celery-fair: no view of the fleet; this worker keeps a reserve and a share of its "
                "own slots alone"
            )

    def _make_link(self) -> Any:
        kind_of_link = link_type(self._c.connection)
        if kind_of_link is None:
            raise LookupError("this transport's queues can't be measured")
        return kind_of_link(self._c.app)


def _others_free(view: FleetView, me: Member) -> int:
    running = view.running_interactive + view.running_batch
    mine = me.running_interactive + me.running_batch
    return max(view.slots - me.slots - (running - mine), 0)
