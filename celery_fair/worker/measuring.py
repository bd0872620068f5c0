"""When to read the queues and when to speak to the fleet, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from celery_fair.policy import Policy
from celery_fair.policy.fleet import FleetView, Member
from celery_fair.worker.fleet import Fleet
from celery_fair.worker.links import Answer, link_type
from celery_fair.worker.sensor import Sensor

IDLE_READ_SECONDS = 1.0
"""How often to read for batch alone: nobody waits for that answer."""


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
        self._said_at = 0.0
        self.sensor = Sensor(self._make_link, interval_seconds)
        self.sensor.on_answer = self._on_answer
        self.fleet = Fleet(c.hostname)
        self.fleet_workers = 1
        self.others_free = 0
        """Free slots of the other workers, as of their last words."""
        self.is_possible = False

    def connect(self) -> None:
        """There is a connection to the broker, and so a transport."""
        self.is_possible = link_type(self._c.connection) is not None
        if self._c.hub is None:
            is_green = getattr(self._c.pool, "is_green", False)
            self.sensor.spawn_with(self._c.pool.spawn_n if is_green else lambda read: read())

    def tick(
        self, queues: list[str], now: float, *, interactive_empty: bool, batch_empty: bool
    ) -> None:
        """Read the queues, unless idle lanes already tell that they are empty."""
        if not self.is_possible:
            return
        speak = now - self._said_at >= self.fleet.say_seconds
        stale = now - self.sensor.read_at >= IDLE_READ_SECONDS
        urgent = not interactive_empty
        if not (speak or urgent or (stale and not batch_empty)):
            return
        member = self._word(queues) if speak else None
        if self.sensor.tick(queues, now, urgent=urgent, member=member) and speak:
            self._said_at = now

    def count(self, queues: Iterable[str], now: float) -> int | None:
        """Messages ready in these queues, or ``None`` if unknown."""
        return self.sensor.count(queues, now)

    def close(self) -> None:
        """Leave the fleet, and the broker."""
        self.sensor.leave([self.fleet.name])
        self.sensor.close()

    def _word(self, queues: list[str]) -> tuple[str, str]:
        me = self._policy.member(self.fleet.name)
        return self.fleet.name, self.fleet.word(me, queues)

    def _on_answer(self, answer: Answer) -> None:
        now = monotonic()
        self._on_round_trip(self.sensor.latency_seconds)
        if answer.members:
            self.fleet.hear(answer.members, now)
            self.sensor.leave(self.fleet.forgotten(now))
        me = self._policy.member(self.fleet.name)
        view = self.fleet.view(me, now)
        self.fleet_workers = view.workers if view is not None else 1
        self.others_free = _others_free(view, me) if view is not None else 0
        self._policy.see_fleet(view, now)

    def _make_link(self) -> Any:
        kind_of_link = link_type(self._c.connection)
        if kind_of_link is None:
            raise LookupError("this transport's queues can't be measured")
        return kind_of_link(self._c.app)


def _others_free(view: FleetView, me: Member) -> int:
    running = view.running_interactive + view.running_batch
    mine = me.running_interactive + me.running_batch
    return max(view.slots - me.slots - (running - mine), 0)
