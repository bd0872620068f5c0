"""The policy of one worker: which kind starts next, and how much each lane may pull."""

from __future__ import annotations

from collections.abc import Collection

from celery_fair.policy.credits import Lookahead
from celery_fair.policy.estimates import Rate, RunTime
from celery_fair.policy.fleet import FleetView, Member, Segment
from celery_fair.policy.gate import Gate
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.load import Credits, Load, Mode
from celery_fair.policy.reserve import Reserve, Traffic
from celery_fair.policy.settings import PolicySettings
from celery_fair.policy.share import Received, Share
from celery_fair.policy.view import PolicyView

_VIEW_SECONDS = 2.5
"""How old another worker's last word may be; before that, those beyond the guarantee wait."""


class Policy:
    """Composes the gate, the share, the reserve and the credits of one worker.

    Tell it of every `start` and `finish`, `observe` the load a few times a second, and ask it
    `pick` whenever a slot may be free and `credits` for the lanes' windows. Nothing here blocks or
    reads a clock; ``now`` is seconds on one monotonic clock. Derived numbers are computed at
    ticks, so that what runs for every message only compares.
    """

    __slots__ = (
        "_ask_first", "_batch_ceiling", "_batch_time", "_capped", "_fleet", "_gate",
        "_interactive_ceiling", "_interactive_time", "_keep", "_last_batch_start", "_leans",
        "_load", "_lookahead", "_others_batch", "_others_free", "_others_interactive",
        "_owed_ceiling", "_received", "_reserve", "_segment", "_serves_both", "_settings",
        "_share", "_starts", "fleet_reserve", "interactive_rate", "mode", "reserve",
        "running_batch", "running_interactive", "serves", "slots",
    )  # fmt: skip

    def __init__(
        self,
        settings: PolicySettings,
        *,
        slots: int,
        now: float,
        serves: Collection[Kind] = KINDS,
    ) -> None:
        self._settings = settings
        self.serves = frozenset(serves)
        self._serves_both = len(self.serves) == len(KINDS)
        self.slots = max(slots, 0)
        self.running_interactive = self.running_batch = 0
        self.mode = Mode.OPEN
        self.reserve = self.fleet_reserve = 0
        self.interactive_rate = 0.0
        self._gate = Gate(settings, now)
        self._reserve = Reserve(settings, now)
        self._share = Share(
            settings.batch_share, slots, now, in_tasks=settings.share_unit == "tasks"
        )
        self._interactive_time, self._batch_time = RunTime(), RunTime()
        self._starts = Rate(now)
        self._lookahead = Lookahead()
        self._load = Load(None, None, interactive_lane_empty=True, batch_lane_empty=True)
        self._fleet: FleetView | None = None
        self._others_interactive = self._others_batch = 0
        self._keep = 0
        self._last_batch_start: float | None = None
        self._received = Received(now)
        self._derive(now)

    # What happens to the worker.

    def resize(self, slots: int, now: float) -> None:
        """The pool has so many slots from now on."""
        self.slots = max(slots, 0)
        self._derive(now)

    def start(
        self, kind: Kind, now: float, waited_seconds: float = 0.0, charge: float = 1.0
    ) -> None:
        """A task was given to the pool, ``waited_seconds`` after it was received here.

        ``charge`` is how many turns it counts as where the share is counted in tasks.
        """
        if kind == BATCH:
            self.running_batch += 1
            self._last_batch_start = now
            self._share.moved(self.running_batch + self._others_batch, now)
        else:
            self.running_interactive += 1
            self._starts.new += 1
            if waited_seconds > self._gate.half_wait_seconds:
                self._gate.note_late(waited_seconds, now)
        if self._share.in_tasks:
            self._share.turn(charge, batch=kind == BATCH, now=now)

    def finish(self, kind: Kind, now: float, run_seconds: float) -> None:
        """A task left the pool, however it ended."""
        if kind == BATCH:
            if self.running_batch > 0:
                self.running_batch -= 1
            self._batch_time.add(run_seconds if run_seconds > 0 else 0.0)
            self._share.moved(self.running_batch + self._others_batch, now)
        else:
            if self.running_interactive > 0:
                self.running_interactive -= 1
            self._interactive_time.add(run_seconds if run_seconds > 0 else 0.0)

    def observe(self, load: Load, now: float) -> Mode | None:
        """Take in one tick's load; return the new mode if it changed."""
        self._load = load
        self._interactive_time.oldest = load.interactive_oldest_run_seconds
        self._batch_time.oldest = load.batch_oldest_run_seconds
        self.interactive_rate = self._starts.per_second(
            now, self._reserve.memory_seconds(self._batch_time.expected)
        )
        both = load.batch_waits and (load.interactive_waits or self.running_interactive > 0)
        self._received.tick(now, self.running_batch if both else None, self.slots)
        changed = self._observe_mode(load, now)
        self._derive(now)
        return changed

    def see_fleet(self, view: FleetView | None, now: float) -> None:
        """Act as a part of this fleet from now on; ``None`` is a worker by itself."""
        if view is None and self._fleet is not None:
            self._share.moved(self.running_batch + self._others_batch, now)
            self._share.scale(self.slots / max(self._segment.total, 1))
        self._fleet = view
        self._others_interactive = self._others_batch = 0
        if view is not None:
            self._others_interactive = max(0, view.running_interactive - self.running_interactive)
            self._others_batch = max(0, view.running_batch - self.running_batch)
        self._derive(now)

    # What it may do.

    def pick(
        self, interactive_held: int, batch_held: int, now: float, interactive_empty: bool = True
    ) -> Kind | None:
        """Return the kind to start in a free slot, or ``None`` to leave the slots as they are.

        ``interactive_empty``: the interactive lane has been asked and had nothing for a round trip.
        Where this worker keeps no slot free, or is protected, batch that isn't owed waits for
        that answer: held here, it would overtake interactive tasks that wait at the broker.
        """
        batch = self.running_batch
        free = self.slots - batch - self.running_interactive
        if free <= 0:
            return None
        if batch_held and batch < self._owed_ceiling and now >= self._share.owed_when:
            return BATCH
        if interactive_held and self.running_interactive < self._interactive_ceiling:
            return INTERACTIVE
        if (
            batch_held
            and batch < self._batch_ceiling
            and free > self._kept()
            and (interactive_empty or not self._ask_first)
        ):
            return BATCH
        return None

    def credits(self, now: float) -> Credits:
        """How many messages each lane may hold. The same object as long as nothing changes."""
        interactive, batch, slots = self.running_interactive, self.running_batch, self.slots
        free = slots - interactive - batch
        if free < 0:
            free = 0
        keep = self._kept()
        places = min(free - keep, self._batch_ceiling - batch)
        if places > 0:
            batch_credit = places
            if self.mode is Mode.OPEN:
                batch_credit += self._lookahead.batch(batch, places)
        else:
            batch_credit = 0
            if self.mode is Mode.OPEN and free >= keep:
                batch_credit = self._lookahead.batch(batch, 0)
            if (
                not batch_credit
                and batch < self._owed_ceiling
                and self._share.waits
                and now >= self._share.soon_when
            ):
                batch_credit = 1
        if self._leans and places > 0:
            return self._lookahead.credits(0, batch_credit)
        room = self._interactive_ceiling - interactive
        if room > 0:
            interactive_credit = min(free, room)
            interactive_credit += self._lookahead.interactive(interactive, batch, slots)
        else:
            interactive_credit = self._lookahead.interactive(interactive, 0, interactive)
        return self._lookahead.credits(interactive_credit, batch_credit)

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return self.running_interactive + self.running_batch

    def member(self, name: str) -> Member:
        """This worker's word to the others, as of the last tick and the tasks running now."""
        return Member(
            name=name,
            slots=self.slots,
            running_interactive=self.running_interactive,
            running_batch=self.running_batch,
            interactive_rate=self.interactive_rate,
            interactive_mean_seconds=self._interactive_time.expected,
            batch_mean_seconds=self._batch_time.expected,
            batch_finished=self._batch_time.count,
        )

    def view(self, now: float) -> PolicyView:
        """A snapshot for people and metrics."""
        gate, fleet = self._gate, self._fleet
        return PolicyView(
            mode=self.mode,
            mode_since=gate.since,
            mode_reason=gate.reason,
            mode_changes=gate.changes,
            slots=self.slots,
            running_interactive=self.running_interactive,
            running_batch=self.running_batch,
            reserve=self.reserve,
            fleet_reserve=self.fleet_reserve,
            batch_ceiling=self._batch_ceiling,
            owed_ceiling=self._owed_ceiling,
            debt_seconds=self._share.debt_at(now),
            batch_owed=now >= self._share.owed_when,
            share=self._share.share,
            share_received=self._received.share,
            interactive_mean_seconds=self._interactive_time.mean,
            batch_mean_seconds=self._batch_time.mean,
            interactive_rate=self.interactive_rate,
            last_batch_start=self._last_batch_start,
            blind=gate.blind,
            fleet_workers=1 if fleet is None else fleet.workers,
            fleet_slots=self._segment.total,
        )

    # What is computed at a tick.

    def _kept(self) -> int:
        """Slots that batch leaves free: no more than interactive tasks may still take."""
        if not self._capped:
            return self._keep
        return min(self._keep, max(0, self._interactive_ceiling - self.running_interactive))

    def _observe_mode(self, load: Load, now: float) -> Mode | None:
        if not self._serves_both:
            return None
        if self.running_interactive >= self._interactive_ceiling:
            changed = self._gate.stand_open(now, "interactive is at its ceiling")
        else:
            free = self._others_free + max(0, self.slots - self.running)
            changed = self._gate.observe(load, now, slots=self._segment.total, free=free)
        self.mode = self._gate.mode
        return changed

    def _derive(self, now: float) -> None:
        """Compute all that the hot path compares with."""
        settings, fleet = self._settings, self._fleet
        self._segment = segment = Segment.of(self.slots, fleet)
        self._others_free = max(
            0, segment.total - self.slots - self._others_interactive - self._others_batch
        )
        share = settings.share_at(self._load.batch_oldest_wait_seconds)
        guaranteed = settings.guaranteed(segment.total, share)
        traffic = self._traffic(segment.total)
        if self._serves_both:
            wanted = self._reserve.update(traffic, now)
            self.fleet_reserve = max(0, min(wanted, segment.total - guaranteed))
            self.reserve = segment.head(self.fleet_reserve)
            self._keep = max(self.reserve, self.fleet_reserve - self._others_free)
        self._set_ceilings(segment, guaranteed)
        self._leans = self._may_lean()
        self._ask_first = (
            self._serves_both
            and not self._leans
            and (self._keep == 0 or self.mode is Mode.PROTECTED)
        )
        self._settle_share(share, segment, guaranteed, traffic, now)
        self._lookahead.configure(
            settings.lookahead_seconds,
            self.slots * settings.prefetch_multiplier,
            self._interactive_time,
            self._batch_time,
        )

    def _set_ceilings(self, segment: Segment, guaranteed: int) -> None:
        serves_interactive, serves_batch = INTERACTIVE in self.serves, BATCH in self.serves
        most = self._settings.interactive_max_slots if self._serves_both else None
        self._capped = most is not None
        limit = self.slots if most is None else min(most, self.slots)
        self._interactive_ceiling = limit if serves_interactive else 0
        most = self._settings.batch_max_slots
        limit = self.slots if most is None else min(most, self.slots)
        if not serves_batch:
            self._batch_ceiling = self._owed_ceiling = 0
            return
        part = min(segment.tail(guaranteed), limit)
        # Beyond the guaranteed slots a worker may still help out, if it has the patience.
        self._owed_ceiling = max(0, min(part or 1, limit, guaranteed - self._others_batch))
        if self.mode is Mode.PROTECTED:
            limit = min(limit, part, self.slots - self.reserve)
        self._batch_ceiling = limit

    def _may_lean(self) -> bool:
        """Whether this worker leaves interactive tasks to the fleet's reserve elsewhere.

        A lane that polls while its worker is about to take a long batch task catches
        interactive messages that a free worker of the reserve would have run.
        """
        return (
            self._serves_both
            and self.mode is Mode.OPEN
            and self.fleet_reserve > 0
            and self._keep == 0
            and self._load.interactive_backlog == 0
            and bool(self._load.batch_backlog)
        )

    def _traffic(self, slots: int) -> Traffic:
        fleet = self._fleet
        rate = self.interactive_rate * slots / max(self.slots, 1)
        interactive, batch = self._interactive_time.expected, self._batch_time.expected
        finished = self._batch_time.count
        if fleet is not None:
            rate = rate if fleet.interactive_rate is None else fleet.interactive_rate
            interactive = fleet.interactive_mean_seconds or interactive
            batch = fleet.batch_mean_seconds or batch
            finished = finished if fleet.batch_finished is None else fleet.batch_finished
        running = self.running_batch + self._others_batch
        return Traffic(slots, rate, interactive, batch, running, finished)

    def _settle_share(
        self, share: float, segment: Segment, guaranteed: int, traffic: Traffic, now: float
    ) -> None:
        step = max(traffic.batch_seconds, _VIEW_SECONDS * share * segment.total)
        distance = segment.distance(guaranteed)
        running = self.running_batch + self._others_batch
        self._share.moved(running, now)
        self._share.waits = BATCH in self.serves and self._load.batch_waits
        self._share.configure(
            share,
            segment.total,
            batch_mean=traffic.batch_seconds,
            longest_mean=max(traffic.interactive_seconds, traffic.batch_seconds),
            patience=distance * (2.0 if self._share.in_tasks else step),
        )
        self._share.moved(running, now)
