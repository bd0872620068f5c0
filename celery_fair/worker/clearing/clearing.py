"""Who waits until it is cleared, in one worker: the loop's side of limits, budgets and the hook."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.resources.store import LEASE_SECONDS, RENEW_SECONDS, Wait, Want
from celery_fair.resources.walk import MOST_GRANTED
from celery_fair.worker import internals, telling
from celery_fair.worker.clearing.needs import Uses, needs_of
from celery_fair.worker.clearing.places import IDLE_SECONDS, Places
from celery_fair.worker.clearing.returning import Returning
from celery_fair.worker.clearing.turn import in_turn
from celery_fair.worker.clearing.waiting import ATTRIBUTE, LEASE, WANT, Waiting, waiting_of
from celery_fair.worker.lanes import Held, Lane
from celery_fair.worker.outcomes import WITHDRAWN
from celery_fair.worker.slots import Slot

if TYPE_CHECKING:
    from celery_fair.worker.clearing.hooking import Hooking
    from celery_fair.worker.clearing.keeper import Keeper
    from celery_fair.worker.dispatcher import Dispatcher

STALE_SECONDS: Final = LEASE_SECONDS - RENEW_SECONDS
"""After so long without a renewal nothing is begun with a place: it may be another's by now."""

FEW: Final = 16
LOOKING: Final = 0.1
"""Where more than a few wait, looking for those that could have a slot takes a part of the loop's
time at the most: each look is at all of them, and there may be one a message."""

LONGEST_BLIND: Final = RENEW_SECONDS
"""But there is one after so many seconds: the process may have stood still in the midst of one."""


class Clearing:
    """Lets a request out of its waiting room when its resources are granted and the hook agrees.

    All is called in the loop, with the dispatcher's lock held. What has become of a place is found
    by `audit` in any case, a few times a second; the calls in between only make it sooner.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        uses: Uses | None = None,
        keeper: Keeper | None = None,
        hooking: Hooking | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._uses = uses
        self.keeper = keeper
        self.places = Places(lambda slot: True) if keeper is None else keeper.places
        self.hooking = hooking
        self._short: dict[Kind, set[Sequence[str]]] = {}
        """What tasks use that have asked for it, and must wait."""
        self._cleared: dict[str, Waiting] = {}
        """By lease: those in a lane, that have yet to get a slot."""
        self.looking = LOOKING
        self._look_again_at = -math.inf
        self.give_back = Returning(dispatcher, keeper).give_back
        self.idle = self.stale = 0
        """Places that found no slot in time, and those that were not renewed in time."""

    # --- a request comes

    def takes(self, lane: Lane, held: Held, now: float) -> bool:
        """Have a request that has come wait, if it needs anything first; whether it does."""
        needs = needs_of(lane.kind, held.request, self._uses, self.hooking is not None)
        if needs is None:
            return False
        waiting = Waiting(lane, held, needs)
        setattr(held.request, ATTRIBUTE, waiting)
        self.wait(waiting)
        dispatcher = self._dispatcher
        if held.deadline is not None and held.deadline.at <= now:
            dispatcher.end_overdue()
        elif "held" in dispatcher.observers.hooks:
            dispatcher.observers.tell("held", telling.of_held(lane.kind, held))
        self.look(now)
        return True

    def wait(self, waiting: Waiting) -> None:
        """Into the room, with nothing granted."""
        waiting.wants_anew(self.keeper.worker if self.keeper is not None else "")
        lane = waiting.lane
        lane.put_off(waiting)
        if waiting.uses in self._short.get(lane.kind, ()):
            lane.must_wait(waiting, monotonic())
        if waiting.asks_hook and self.hooking is not None:
            self.hooking.ask(waiting)

    # --- it goes

    def settle(self, now: float) -> None:
        """Take in what has been granted and answered since the last time."""
        if self.hooking is not None:
            self.hooking.settle(self, now)
        keeper = self.keeper
        if keeper is not None and keeper.has_answered:
            keeper.has_answered = False
            for lane in self._dispatcher.lanes.values():
                self._settle(lane, keeper.waits, now)

    def _settle(self, lane: Lane, waits: Mapping[str, Wait], now: float) -> None:
        for waiting in list(lane.uncleared.values()):
            want = waiting.want
            if want is not None and want.lease in self.places:
                self._cleared[want.lease] = waiting
                self.clear(waiting, now)
        self._short[lane.kind] = short = {
            waiting.uses
            for waiting in lane.uncleared.values()
            if waiting.want is not None and waiting.want.lease in waits
        }
        for waiting in list(map(lane.uncleared.__getitem__, lane.fresh)):
            if waiting.uses in short:
                lane.must_wait(waiting, now)

    def clear(self, waiting: Waiting, now: float) -> None:
        """It may have a slot: from here on it waits for nothing else."""
        waiting.held = waiting.held._replace(received_at=now)
        waiting.lane.clear(waiting, now)
        if self._dispatcher.pausing.keys:  # its queue may be paused since it was asked for
            self._dispatcher.pausing.put_aside(waiting.lane)

    def may_start(self, held: Held, now: float) -> bool:
        """Whether a request that is about to get a slot still has what it needs; else it waits."""
        waiting = waiting_of(held.request)
        if waiting is None or waiting.want is None:
            return True
        lease = waiting.want.lease
        waiting.held = held  # a pause may have put off its deadline
        if not self._is_stale(now) and self.places.claim(lease):
            return True
        self.stale += 1
        self._put_back(waiting)
        return False

    def begin(self, slot: Slot) -> None:
        """A request has got its slot, and is about to be given to the pool."""
        waiting = waiting_of(slot.request)
        if waiting is not None and waiting.want is not None:
            lease = waiting.want.lease
            self._cleared.pop(lease, None)
            self.places.begin(lease, slot)
            lane = waiting.lane
            if lane.takes_turns:
                turns = lane.places.of(waiting.uses)
                waiting.turn = turns.start(waiting.held.tenant, slot.started_at)
            said = {LEASE: lease, WANT: list(waiting.want[1:])}
            internals.tell_child(slot.request, **said)

    def left(self, slot: Slot) -> None:
        """A slot was given back, however its task has ended."""
        waiting = slot.request.__dict__.pop(ATTRIBUTE, None)  # each knows the other: no garbage
        if waiting is not None and waiting.want is not None:
            self.places.end(waiting.want.lease, began=slot.outcome != WITHDRAWN)
            if waiting.turn is not None:
                turns = self._dispatcher.tenants.places[slot.kind].of(waiting.uses)
                turns.end(waiting.turn, slot.finished_at - slot.started_at)

    def _is_stale(self, now: float) -> bool:
        keeper = self.keeper
        if keeper is None or keeper.is_away:
            return False
        return now - keeper.renewed_at >= STALE_SECONDS

    def _put_back(self, waiting: Waiting) -> None:
        if waiting.want is not None:
            self._cleared.pop(waiting.want.lease, None)
            self.places.end(waiting.want.lease, began=False)
        waiting.held = waiting.held._replace(received_at=waiting.received_at)
        self.wait(waiting)

    # --- what it asks for

    def look(self, now: float) -> None:
        """Ask for what could have a slot now or soon, and give back what has ended."""
        keeper = self.keeper
        if keeper is None or not (keeper.wants or self.places.has_news or self._any_waits()):
            return
        if now < self._look_again_at and not self.places.has_news:
            return  # the next tick does
        began = monotonic()
        wants = [want for lane in self._lanes() for want in self._wants(lane, now)]
        changed = {w.lease for w in wants} != {w.lease for w in keeper.wants}
        if changed or self.places.has_news:
            keeper.wants = wants
            keeper.ask()
        if sum(len(lane.uncleared) for lane in self._dispatcher.lanes.values()) > FEW:
            blind = (monotonic() - began) / self.looking
            self._look_again_at = now + min(blind, LONGEST_BLIND)

    def _any_waits(self) -> bool:
        return any(lane.uncleared for lane in self._dispatcher.lanes.values())

    def _lanes(self) -> list[Lane]:
        """Those of which something may start."""
        dispatcher = self._dispatcher
        if not dispatcher.enforcing or not dispatcher.pool.is_running():
            return []
        lanes = [dispatcher.lanes[kind] for kind in KINDS if kind in dispatcher.lanes]
        return [lane for lane in lanes if lane.alive and not lane.paused]

    def _wants(self, lane: Lane, now: float) -> list[Want]:
        """As many of each use as the lane may hold: a place isn't to wait for a busy worker.

        And no more than a turn grants: to line them up takes Redis's time, which is everybody's,
        and it wouldn't have them start sooner.
        """
        room = min(lane.credit - len(lane), MOST_GRANTED)
        if room <= 0 or not lane.uncleared:
            return []
        asked: Counter[Sequence[str]] = Counter()
        found = []
        for waiting in in_turn(lane):
            want = waiting.want
            if want is None or waiting.asks_hook or self.is_paused(waiting):
                continue
            if asked[waiting.uses] < room and want.lease not in self.places:
                asked[waiting.uses] += 1
                found.append(want)
        return found

    def is_paused(self, waiting: Waiting) -> bool:
        """Whether its queue is."""
        return self._dispatcher.pausing.is_paused(waiting.request)

    def why(self, waiting: Waiting) -> dict[str, Any]:
        """What a request waits for, as facts; ``again_at`` is epoch seconds."""
        want, keeper = waiting.want, self.keeper
        wait = keeper.waits.get(want.lease) if keeper is not None and want is not None else None
        later = waiting.not_before - monotonic()
        return {
            "uses": list(waiting.uses),
            "wait": None if wait is None else {
                "resource": wait.resource, "short": wait.short.value,
                "seconds": round(wait.seconds, 3), "before": wait.before,
            },
            "asks_hook": waiting.asks_hook,
            "again_at": round(time.time() + later, 3) if later > 0 else None,
            "said": waiting.said,
        }  # fmt: skip

    # --- what is found out in any case

    def tick(self, now: float) -> None:
        """Look at everything that no event tells."""
        if self.hooking is not None:
            self.hooking.tick(self, now)
        if self.keeper is not None:
            self.keeper.has_answered = True  # by now something may wait that it has granted before
        self.settle(now)
        self.audit(now)

    def audit(self, now: float) -> None:
        """Give back the places of requests that have gone some other way, or wait for too long."""
        if not self.places:
            self._cleared.clear()
            return
        self.places.sweep()
        lanes = self._dispatcher.lanes.values()
        held = {one.sequence for lane in lanes if lane.alive for one in lane}
        wanted = {waiting.want.lease for waiting in self._in_rooms() if waiting.want is not None}
        for grant in self.places.unbegun():
            lease = grant.want.lease
            waiting = self._cleared.get(lease)
            if lease in wanted:
                continue  # granted this instant
            if waiting is None or waiting.key not in held:
                self._forget(lease, waiting)
            elif now - waiting.held.received_at >= IDLE_SECONDS:
                self.idle += 1
                (waiting.held,) = waiting.lane.take_held_before(math.inf, partial(_is, waiting))
                self._put_back(waiting)

    def _in_rooms(self) -> chain[Waiting]:
        return chain.from_iterable(
            list(lane.uncleared.values()) for lane in self._dispatcher.lanes.values()
        )

    def _forget(self, lease: str, waiting: Waiting | None) -> None:
        """It is in no lane: it has a slot of which nobody told, or has ended without."""
        self._cleared.pop(lease, None)
        slot = waiting.held.request.__dict__.get("fair_slot") if waiting is not None else None
        if slot is not None and slot in self._dispatcher.slots.taken:
            self.places.begin(lease, slot)
        else:
            self.places.end(lease, began=False)

    # --- over the life of a connection

    def disconnect(self) -> None:
        """The lanes hold nothing any more, or start nothing; what runs keeps its places."""
        keeper = self.keeper
        wanted = keeper is not None and bool(keeper.wants)
        if keeper is not None:
            keeper.forget_wants()
        for grant in self.places.unbegun():
            self._forget(grant.want.lease, self._cleared.get(grant.want.lease))
        if keeper is not None and (wanted or self.places.has_news):
            keeper.ask()

    def stop(self) -> None:
        """The worker ends, and all that ran in it has."""
        if self.hooking is not None:
            self.hooking.stop()
        if self.keeper is not None:
            self.keeper.stop()


def _is(waiting: Waiting, held: Held) -> bool:
    return held.sequence == waiting.key
