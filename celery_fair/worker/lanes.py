"""Pull: one kind inside one worker, with the messages that it holds."""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from celery_fair.policy.kinds import Kind
from celery_fair.policy.tenant_rules import Tenant
from celery_fair.policy.tenants import Turns
from celery_fair.worker.deadlines import Deadline
from celery_fair.worker.tenants import HeldByTenant, PlaceTurns

if TYPE_CHECKING:
    from celery_fair.worker.clearing.waiting import Waiting

NO_LIMIT = sys.maxsize

DOUBT_SECONDS = 0.1
"""How long a lane must be silent that says otherwise than the last count of its queues.

A busy machine may leave the broker's answer unread for some round trips; and the gate would open,
in the middle of an overload, since "nothing interactive waits".
"""

FAILING_LIMIT = 64
"""So many may be being failed at once; a slow result backend takes a while for each."""

ROOM_LIMIT = 256
"""So many may wait until they are cleared: beyond them a lane looks no further into its queues."""

_sequence = count()
_new = tuple.__new__  # a named tuple's own is a call of Python more


class Held(NamedTuple):
    """A request that waits for its turn; sorts by first publish time, then by arrival."""

    first_published: float
    sequence: int
    request: Any
    ready_at: float | None
    received_at: float
    deadline: Deadline | None = None
    tenant: Tenant = None

    def postponed(self, seconds: float) -> Held:
        """The same with that much more time."""
        deadline = self.deadline
        if deadline is None or seconds <= 0:
            return self
        return self._replace(deadline=deadline._replace(at=deadline.at + seconds))


def make_held(
    request: Any,
    first_published: float,
    ready_at: float | None,
    now: float,
    deadline: Deadline | None = None,
    tenant: Tenant = None,
) -> Held:
    """A request as a lane holds it, and in none yet."""
    held = (first_published, next(_sequence), request, ready_at, now, deadline, tenant)
    return _new(Held, held)


class Lane:
    """One kind's messages in this worker, over one connection to the broker.

    A lane lives as long as its connection: after a reconnect there is a new one, and what an old
    lane's timers still deliver is dropped, since the broker has given it out again.
    ``credit`` is how many messages may wait here; ``limited`` of them are behind a rate limit and
    ``scheduled`` ones behind an ETA. The latter hold no credit, else thirty retries would stop
    the lane until the first is due; the former do, and there are ``limited_limit`` at the most:
    batch that waits for its rate is not run, so it is owed ever more, and credited for it.
    ``aside`` are held messages of paused queues: they wait for no slot, and take no credit. Nor do
    ``uncleared`` ones, which lack a place at a resource or the word of a hook; there are
    ``room_limit`` at the most, by number. But ``fresh`` ones among them do, of which it isn't
    known yet that they must wait: else a worker would pull them all while it asks about the first.
    From the first message on that names a tenant, tenants take turns in what is held.
    """

    __slots__ = (
        "alive",
        "aside",
        "asked_at",
        "credit",
        "doubtful",
        "empty_at",
        "failing",
        "fresh",
        "held",
        "kind",
        "limited",
        "limited_limit",
        "paused",
        "places",
        "probe_at",
        "probing",
        "room_limit",
        "scheduled",
        "scheduled_limit",
        "takes_turns",
        "turns",
        "uncleared",
    )

    def __init__(
        self,
        kind: Kind,
        now: float,
        scheduled_limit: int,
        limited_limit: int = NO_LIMIT,
        room_limit: int = ROOM_LIMIT,
    ) -> None:
        self.kind = kind
        self.credit = 0
        self.limited = 0
        self.scheduled = 0
        self.scheduled_limit = scheduled_limit
        self.limited_limit = limited_limit
        self.room_limit = room_limit
        self.asked_at = now
        self.alive = True
        self.failing = 0
        """Overdue messages that are being failed; beyond a number the next only adds to them."""
        self.empty_at = -math.inf
        """When the broker was last seen to have nothing."""
        self.probe_at = -math.inf
        """Before that time nothing at the broker can be overdue."""
        self.probing = False
        """Whether there is credit only to look for what is overdue."""
        self.doubtful = False
        """Whether messages were ready for it, when they were last counted."""
        self.paused = False
        """Whether somebody has paused the kind: nothing of it starts, nor does its time run out."""
        self.held: list[Held] | HeldByTenant = []
        """A heap: the first is the one that was published first. With tenants, one of each."""
        self.aside: list[Held] = []
        self.turns, self.places = Turns(), PlaceTurns()
        """Outlive the lane, which lets go of them as it closes."""
        self.takes_turns = False
        self.uncleared: dict[int, Waiting] = {}
        self.fresh: set[int] = set()

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[Held]:
        return iter(self.held)

    @property
    def waiting(self) -> int:
        """Messages that wait here for a slot: held, and rate-limited."""
        return len(self.held) + self.limited

    def room(self) -> int:
        """How many more messages the lane may take; the hot path of ``can_consume``."""
        room = self.credit - len(self.held) - self.limited - len(self.fresh)
        if (
            self.scheduled >= self.scheduled_limit
            or self.failing >= FAILING_LIMIT
            or len(self.uncleared) >= self.room_limit
        ):
            return min(room, 0)
        if self.limited:  # what comes next may have to wait for its rate too
            return min(room, self.limited_limit - self.limited)
        return room

    @property
    def is_blocked(self) -> bool:
        """Whether so many must be cleared first that it can't look behind them.

        Then nothing is known to want a slot but what is held: it has no backlog to be protected,
        or to be owed.
        """
        return len(self.uncleared) >= self.room_limit

    def grant(self, credit: int, now: float) -> None:
        """Set the credit; the broker is asked anew as soon as there is room again."""
        if credit != self.credit:
            had_room = self.room() > 0
            self.credit = credit
            if not had_room:
                self.asked_at = now

    def may_be_overdue(self, shortest_seconds: float, now: float) -> bool:
        """Whether something at the broker may have waited for that long; never for infinity."""
        if shortest_seconds == math.inf or now < self.probe_at:
            return False
        return now - self.empty_at >= shortest_seconds

    def failed(self, now: float) -> None:
        """One that was being failed is done with."""
        if self.failing == FAILING_LIMIT:  # there was no room
            self.asked_at = now
        self.failing -= 1

    def is_empty(self, now: float, round_trip_seconds: float) -> bool:
        """Whether the broker has nothing: asked with room to spare, and silent for a round trip."""
        if self.held or self.room() <= 0 or not self.alive:
            return False
        return self.silence_left(now, round_trip_seconds) <= 0

    def silence_left(self, now: float, round_trip_seconds: float) -> float:
        """For how much longer the broker must be silent until that means that it has nothing."""
        needed = max(DOUBT_SECONDS, round_trip_seconds) if self.doubtful else round_trip_seconds
        return needed - (now - self.asked_at)

    def hold(
        self,
        request: Any,
        first_published: float,
        ready_at: float | None,
        now: float,
        deadline: Deadline | None = None,
        tenant: Tenant = None,
    ) -> Held:
        held = _new(
            Held, (first_published, next(_sequence), request, ready_at, now, deadline, tenant)
        )
        if tenant is not None and not self.takes_turns:
            self.take_turns()
        self.push(held)
        return held

    def push(self, held: Held) -> None:
        """Hold it in its place."""
        if isinstance(self.held, list):
            heapq.heappush(self.held, held)
        else:
            self.held.push(held)

    def put_off(self, waiting: Waiting) -> None:
        """Have a message wait until it is cleared."""
        tenant = waiting.held.tenant
        if tenant is not None and not self.takes_turns:
            self.take_turns()
        self.uncleared[waiting.key] = waiting
        self.fresh.add(waiting.key)
        if self.takes_turns:
            self.turns.bar(tenant)
            self.line_up(waiting)

    def line_up(self, waiting: Waiting) -> None:
        """A message that wants places waits for nothing else, if the hook has let it run."""
        if self.takes_turns and waiting.uses and not waiting.asks_hook:
            self.places.of(waiting.uses).join(waiting.held.tenant)

    def must_wait(self, waiting: Waiting, now: float) -> None:
        """It is known that a message can't start yet: others may be pulled beside it."""
        had_room = self.room() > 0
        self.fresh.discard(waiting.key)
        self._has_room(had_room, now)

    def clear(self, waiting: Waiting, now: float) -> None:
        """Hold a message that had to wait until then."""
        had_room = self.room() > 0
        self.push(waiting.held)  # first: its tenant waits all the time
        self._drop([waiting])
        self._has_room(had_room, now)

    def take_uncleared(self, found: Iterable[Waiting], now: float) -> None:
        """Remove messages that wait until they are cleared."""
        had_room = self.room() > 0
        self._drop(found)
        self._has_room(had_room, now)

    def _drop(self, found: Iterable[Waiting]) -> None:
        gone = set()
        for waiting in found:
            self.uncleared.pop(waiting.key, None)
            self.fresh.discard(waiting.key)
            gone.add((waiting.uses, waiting.held.tenant))
        if not self.takes_turns or not gone:
            return
        left = self.uncleared.values()
        for uses, tenant in gone.difference(
            (one.uses, one.held.tenant) for one in left if not one.asks_hook
        ):
            if uses:
                self.places.of(uses).leave(tenant)
        for tenant in {tenant for _, tenant in gone}.difference(one.held.tenant for one in left):
            self.turns.unbar(tenant)

    def _has_room(self, had_room: bool, now: float) -> None:
        """The broker is asked anew from the time on that there is room again."""
        if not had_room and self.room() > 0:
            self.asked_at = now

    def take(self, now: float) -> Held:
        """Remove the message that was published first, of the tenant whose turn it is."""
        held = self.held
        if len(held) + self.limited + len(self.fresh) >= self.credit:  # there was no room
            self.asked_at = now
        return heapq.heappop(held) if isinstance(held, list) else held.pop()

    def before(self, held: Held) -> int:
        """How many that are held start before it, as far as can be known."""
        if isinstance(self.held, list):
            return sum(other < held for other in self.held)
        return self.held.before(held)

    def tenants(self, now: float) -> dict[str, Any] | None:
        """Who waits here, where tenants take turns."""
        return None if isinstance(self.held, list) else self.held.report(now)

    def is_capped(self, tenant: Tenant) -> bool:
        """Whether a tenant runs as many tasks here as it may while others wait."""
        return self.takes_turns and self.turns.order_of(tenant)[0]

    def take_turns(self) -> None:
        """Hold by tenant from now on."""
        self.takes_turns = True
        self.held = HeldByTenant(self.turns, sorted(self.held))
        for waiting in self.uncleared.values():
            self.turns.bar(waiting.held.tenant)
            self.line_up(waiting)

    def due(self) -> None:
        """The time of a scheduled message has come; if it was revoked, it may not be counted."""
        self.scheduled = max(self.scheduled - 1, 0)

    def oldest_received_at(self) -> float | None:
        return min((held.received_at for held in self.held), default=None)

    def oldest_ready_at(self) -> float | None:
        return min((held.ready_at for held in self.held if held.ready_at), default=None)

    def take_held_before(self, received_at: float, takes: Callable[[Held], bool]) -> list[Held]:
        """Remove the messages received before that time of which ``takes`` is true."""
        return self._take([h for h in self.held if h.received_at < received_at and takes(h)])

    def take_all(self) -> list[Held]:
        """Remove every message that is held, of paused queues too."""
        aside, self.aside = self.aside, []
        uncleared = [waiting.held for waiting in self.uncleared.values()]
        self._drop(list(self.uncleared.values()))
        return [*self._take(list(self.held)), *aside, *uncleared]

    def take_overdue(self, now: float) -> list[Held]:
        """Remove the messages whose deadline has passed; in a pause none does."""
        if self.paused:
            return []
        had_room = self.room() > 0
        overdue = [h for h in self.held if h.deadline is not None and h.deadline.at <= now]
        if overdue and not had_room:
            self.asked_at = now
        return [*self._take(overdue), *self._overdue_uncleared(now)]

    def _overdue_uncleared(self, now: float) -> list[Held]:
        if not self.uncleared:
            return []
        every = [(one, one.held.deadline) for one in self.uncleared.values()]
        found = [one for one, deadline in every if deadline is not None and deadline.at <= now]
        self.take_uncleared(found, now)
        return [waiting.held for waiting in found]

    def _take(self, overdue: list[Held]) -> list[Held]:
        if overdue:
            self._keep(set(self.held).difference(overdue))
        return overdue

    def _keep(self, held: Iterable[Held]) -> None:
        """Hold these, and nothing else."""
        if isinstance(self.held, list):
            self.held = sorted(held)  # a sorted list is a heap
        else:
            self.held.replace(held)

    def take_aside_before(self, received_at: float, takes: Callable[[Held], bool]) -> list[Held]:
        """The same of the messages of paused queues."""
        found = [h for h in self.aside if h.received_at < received_at and takes(h)]
        if found:
            left = set(self.aside).difference(found)
            self.aside = [h for h in self.aside if h in left]
        return found

    def hold_again(self, found: list[Held], aside: list[Held]) -> None:
        """Hold what was taken, and couldn't go where it was to go; the latter of paused queues."""
        if found:
            self._keep([*self.held, *found])
        self.aside += aside

    def set_aside(self, is_paused: Callable[[Held], bool]) -> None:
        """Put aside what is held of paused queues, and hold again what is so no longer."""
        every = [*self.held, *self.aside]
        self.aside = [held for held in every if is_paused(held)]
        self._keep([held for held in every if not is_paused(held)])

    def postpone(self, seconds_of: Callable[[Held], float]) -> None:
        """Let the deadline of each message held be so much later."""
        self._keep([held.postponed(seconds_of(held)) for held in self.held])
        for waiting in self.uncleared.values():
            waiting.held = waiting.held.postponed(seconds_of(waiting.held))

    def close(self) -> None:
        """The connection is gone: hold nothing, take nothing."""
        self.alive = False
        self.credit = self.limited = self.scheduled = 0
        self.held.clear()
        self._drop(list(self.uncleared.values()))
        self.held, self.takes_turns = [], False
        # The others are the next lane's, whatever a timer still brings here.
        self.turns, self.places = Turns(), PlaceTurns()
        self.aside.clear()
