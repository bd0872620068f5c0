"""The policy of one worker: which kind starts next, and how much each lane may pull."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from celery_fair.policy.credits import Lookahead, credits_of
from celery_fair.policy.engine import Engine
from celery_fair.policy.fleet import FleetView, Member, Place, Stretch
from celery_fair.policy.gate import Cause, Gate
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.policy.limits import Limits, divide
from celery_fair.policy.load import Credits, Load, Mode
from celery_fair.policy.meter import Meter
from celery_fair.policy.reserve import Reserve
from celery_fair.policy.settings import PolicySettings
from celery_fair.policy.share import Share
from celery_fair.policy.view import PolicyView
from celery_fair.policy.waiting import Scene
from celery_fair.policy.yields import Demand


class Policy:
    """Composes the gate, the share, the reserve and the credits of one worker.

    Tell it of every `start` and `finish`, `observe` the load a few times a second, and ask it
    `pick` whenever a slot may be free and `credits` for the lanes' windows. Nothing here blocks or
    reads a clock; ``now`` is seconds on one monotonic clock. Derived numbers are computed at
    ticks, so that what runs for every message only compares.
    """

    __slots__ = (
        "_batch_begins", "_engine", "_gate", "_known_credits", "_last_batch_start", "_limits",
        "_load", "_lookahead", "_meter", "_owed_ceiling", "_place", "_reserve", "_serves_both",
        "_settings", "_share", "consumes", "fleet_reserve", "listening", "mode", "paused",
        "reserve", "running_batch", "running_interactive", "serves", "slot_back_seconds", "slots",
        "yields_per_second",
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
        self.consumes = self.serves = frozenset(serves)
        self.paused: frozenset[Kind] = frozenset()
        self._serves_both = len(self.serves) == len(KINDS)
        self.slots = max(slots, 0)
        self.running_interactive = self.running_batch = 0
        self.mode = Mode.OPEN
        self.listening = False
        self.reserve = self.fleet_reserve = 0
        self.yields_per_second = self.slot_back_seconds = 0.0
        """How often running batch could give a slot back, and how long that takes (`Traffic`)."""
        self._gate = Gate(settings, now)
        self._engine = Engine()
        self._reserve = Reserve(settings, now)
        self._share = Share(
            settings.batch_share, slots, now, in_tasks=settings.share_unit == "tasks"
        )
        self._meter = Meter(now)
        self._lookahead = Lookahead()
        self._load = Load(None, None, interactive_lane_empty=True, batch_lane_empty=True)
        self._place = Place(self.slots)
        self._limits: Limits
        self._last_batch_start: float | None = None
        self._derive(now)

    # What happens to the worker.

    def resize(self, slots: int, now: float) -> None:
        """The pool has so many slots from now on."""
        self.slots = max(slots, 0)
        self._place.resize(self.slots)
        self._derive(now)

    def serve(self, kinds: Collection[Kind], now: float) -> Mode | None:
        """The worker consumes queues of these kinds from now on (``-Q``, ``add_consumer``).

        Return the new mode if that changes it: with one kind there is nobody to protect.
        """
        self.consumes = frozenset(kinds)
        return self._serve(now)

    def pause(self, kinds: Collection[Kind], now: float) -> Mode | None:
        """Start nothing of these kinds from now on; as if their queues weren't consumed.

        So the other kind has all the slots, and no debt grows: a pause owes nothing afterwards.
        """
        self.paused = frozenset(kinds)
        return self._serve(now)

    def _serve(self, now: float) -> Mode | None:
        self.serves = self.consumes - self.paused
        self._serves_both = len(self.serves) == len(KINDS)
        changed = None
        if not self._serves_both and not self._engine_counts:
            reason = f"serves {', '.join(sorted(self.serves)) or 'no kind'} only"
            if self.paused:
                reason += f", as {' and '.join(sorted(self.paused))} is paused"
            changed = self._gate.stand_open(now, Cause.ALONE, reason)
        self._derive(now)
        return changed

    def reconfigure(self, settings: PolicySettings, now: float) -> None:
        """Decide by other numbers from now on; debt, estimates and mode stay what they are."""
        self._settings = settings
        self._gate.reconfigure(settings)
        self._reserve.reconfigure(settings)
        self._share.count_in_tasks(settings.share_unit == "tasks", now)
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
            self._share.moved(self.running_batch + self._place.others_batch, now)
        else:
            self.running_interactive += 1
            self._meter.starts.new += 1
            if waited_seconds > self._gate.half_wait_seconds:
                self._gate.note_late(waited_seconds, now)
        if self._share.in_tasks:
            self._share.turn(charge, batch=kind == BATCH, now=now)

    def finish(self, kind: Kind, now: float, run_seconds: float) -> None:
        """A task left the pool, however it ended."""
        if kind == BATCH:
            if self.running_batch > 0:
                self.running_batch -= 1
            self._meter.batch.add(run_seconds if run_seconds > 0 else 0.0)
            self._share.moved(self.running_batch + self._place.others_batch, now)
        else:
            if self.running_interactive > 0:
                self.running_interactive -= 1
            self._meter.interactive.add(run_seconds if run_seconds > 0 else 0.0)

    def observe(self, load: Load, now: float) -> Mode | None:
        """Take in one tick's load; return the new mode if it changed."""
        self._load = load
        batch_seconds = self._meter.batch.expected
        self._meter.tick(
            load,
            now,
            interactive=self.running_interactive,
            batch=self.running_batch,
            slots=self.slots,
            serves_both=self._serves_both,
            memory=self._reserve.memory_seconds(batch_seconds),
        )
        running = self.running_interactive + self._place.others_interactive
        self._reserve.see_running(running, batch_seconds, now)
        changed = self._observe_mode(load, now)
        self._derive(now)
        return changed

    def listen(self, listening: bool, now: float) -> None:
        """Start no batch task while listening: it may be the reserve of a fleet yet unseen."""
        if listening != self.listening:
            self.listening = listening
            self._derive(now)

    def rely_on_yields(self, per_second: float, now: float) -> None:
        """Running batch can give back so many slots a second; 0 if some of it can't.

        From 0 at the next tick, to 0 at once.
        """
        before, self.yields_per_second = self.yields_per_second, per_second
        if before and not per_second:
            self._derive(now)

    def see_fleet(self, view: FleetView | None, now: float) -> None:
        """Act as a part of this fleet from now on; ``None`` is a worker by itself."""
        place = self._place
        if view is None and place.view is not None:
            self._share.moved(self.running_batch + place.others_batch, now)
            self._share.scale(self.slots / max(place.segment.total, 1))
        if view is not None:
            self._share.owe(view.unpaid_batch_seconds)
        knew, before = place.knows, self._answers_for()
        place.see(view, now, self.slots, self.running_interactive, self.running_batch)
        if knew and not place.knows:
            self._share.scale(self._answers_for() / max(before, 1))
        self._derive(now)

    def lose_sight(self, now: float, cut_off: bool = False) -> None:
        """The others can no longer be seen: act from the same place, on what happens here.

        ``cut_off``: it is this worker that is out of reach, so that the others don't count on it.
        """
        place = self._place
        if place.view is None or (not place.in_sight and place.cut_off == cut_off):
            return
        self._share.moved(self.running_batch + place.others_batch, now)
        before = self._answers_for()
        place.lose_sight(cut_off)
        self._share.scale(self._answers_for() / max(before, 1))
        self._derive(now)

    def _answers_for(self) -> float:
        total = self._place.segment.total
        return self._place.answers_for(self._settings.guaranteed(total, self._share.share))

    # What it may do.

    def pick(
        self, interactive_held: int, batch_held: int, now: float, interactive_empty: bool = True
    ) -> Kind | None:
        """Return the kind to start in a free slot, or ``None`` to leave the slots as they are.

        ``interactive_empty``: the interactive lane has been asked and had nothing for a round trip.
        Where this worker keeps no slot free, or is protected, batch that isn't owed waits for
        that answer: held here, it would overtake interactive tasks that wait at the broker. But
        not those whose ceiling keeps them out of the slot.
        """
        batch = self.running_batch
        free = self.slots - batch - self.running_interactive
        if free <= 0:
            return None
        limits = self._limits
        if batch_held and batch < limits.owed_ceiling and now >= self._share.owed_when:
            return BATCH
        if interactive_held and self.running_interactive < limits.interactive_ceiling:
            return INTERACTIVE
        if (
            batch_held
            and batch < limits.batch_ceiling
            and free > limits.kept(self.running_interactive)
            and (
                interactive_empty
                or not limits.ask_first
                or self.running_interactive >= limits.interactive_ceiling
            )
        ):
            return BATCH
        return None

    def credits(self, now: float) -> Credits:
        """How many messages each lane may hold. The same object as long as nothing changes.

        At least one batch message while batch waits and is owed, or soon will be: a guarantee must
        not starve for want of a message to run, nor hoard one for long. More if they are tiny:
        with one at a time, a millisecond of batch would be followed by interactive tasks of seconds
        while the next message is on its way, and the debt would never be paid.
        """
        share, owed = self._share, 0
        if now >= share.soon_when and share.waits:
            owed = min(max(share.tasks_owed, 1), self._lookahead.batch_most)
        key = (self.running_interactive, self.running_batch, owed)
        found = self._known_credits.get(key)
        if found is None:
            found = self._known_credits[key] = self._compute_credits(owed)
        return found

    def scene(
        self, interactive_held: int, batch_held: int, now: float, limited: tuple[int, int] = (0, 0)
    ) -> Scene:
        """What says why something waits: the load is as of the last tick, all else as of now."""
        return Scene(
            self._limits,
            self._load,
            self.mode,
            slots=self.slots,
            running_interactive=self.running_interactive,
            running_batch=self.running_batch,
            held_interactive=interactive_held,
            held_batch=batch_held,
            limited_interactive=limited[0],
            limited_batch=limited[1],
            listening=self.listening,
            owed=now >= self._share.owed_when,
            paused=self.paused,
            engine_queues=self._engine.queueing,
        )

    def demand(self, interactive_held: int, now: float) -> Demand:
        """What waits here, and how many batch tasks may give way to it.

        At least as many go on as are guaranteed to batch. Where its share is less than one slot,
        it has one when it is owed. Paused, all of them may leave: they go on when it is resumed.
        """
        batch, limits = self.running_batch, self._limits
        if BATCH in self.paused:
            return Demand(batch, 0, batch, 0)
        place, floor = self._place, limits.owed_ceiling
        if self._share.share * place.segment.total < 1.0 and now < self._share.owed_when:
            floor = 0
        return Demand(
            min(interactive_held, limits.interactive_ceiling - self.running_interactive),
            max(self.slots - self.running, 0),
            batch,
            floor,
            self.running_interactive,
            self._meter.interactive.mean,
        )

    def stretch(self, kind: Kind) -> Stretch:
        """The fleet's slots that a kind may have now, and this worker's place among them."""
        place = self._place
        begin = self._batch_begins if kind == BATCH else 0
        return Stretch(place.segment, begin, is_certain=place.knows)

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return self.running_interactive + self.running_batch

    @property
    def line(self) -> tuple[int, int, int]:
        """Where its slots lie in the fleet's line: the first, the one behind the last, and all."""
        segment = self._place.segment
        return segment.first, segment.last, segment.total

    def member(self, name: str) -> Member:
        """This worker's word to the others, as of the last tick and the tasks running now."""
        return self._meter.member(name, self.slots, self.running_interactive, self.running_batch)

    def view(self, now: float) -> PolicyView:
        """A snapshot for people and metrics."""
        gate, fleet = self._gate, self._place.view
        return PolicyView(
            mode=self.mode,
            mode_since=gate.since,
            mode_cause=gate.cause,
            mode_reason=gate.reason,
            mode_changes=gate.changes,
            mode_seconds=gate.seconds(now),
            slots=self.slots,
            running_interactive=self.running_interactive,
            running_batch=self.running_batch,
            reserve=self.reserve,
            fleet_reserve=self.fleet_reserve,
            batch_ceiling=self._limits.batch_ceiling,
            owed_ceiling=self._owed_ceiling,
            debt_seconds=self._share.debt_at(now),
            batch_owed=now >= self._share.owed_when,
            share=self._share.share,
            share_received=self._meter.received.share,
            interactive_mean_seconds=self._meter.interactive.mean,
            batch_mean_seconds=self._meter.batch.mean,
            interactive_rate=self._meter.interactive_rate,
            last_batch_start=self._last_batch_start,
            blind=gate.blind,
            engine_queueing=self._engine.queueing,
            engine_pressure=self._engine.pressure,
            fleet_workers=1 if fleet is None else fleet.workers,
            fleet_slots=self._place.segment.total,
            fleet_in_sight=self._place.in_sight,
        )

    # What is computed at a tick, or when the tasks that run have changed since.

    def _compute_credits(self, owed: int) -> Credits:
        found = credits_of(
            self._limits,
            self._lookahead,
            interactive=self.running_interactive,
            batch=self.running_batch,
            slots=self.slots,
            owed=owed,
            open_=self.mode is Mode.OPEN,
        )
        if not self.paused:
            return found
        serves = self.serves  # what is paused has no lookahead either, though some of it runs
        return Credits(
            found.interactive if INTERACTIVE in serves else 0, found.batch if BATCH in serves else 0
        )

    def _observe_mode(self, load: Load, now: float) -> Mode | None:
        gate, engine = self._gate, self._engine
        engine.see(load.engine_pressure)
        shut = self._engine_counts
        changed = gate.stand_shut(now, Cause.ENGINE, engine.reason) if shut else None
        if self._serves_both:
            changed = self._observe_gate(load, now, keep_shut=shut) or changed
        elif not shut:
            changed = gate.stand_open(now, Cause.ENGINE, engine.relief)
        self.mode = gate.mode
        return changed

    def _observe_gate(self, load: Load, now: float, keep_shut: bool) -> Mode | None:
        if not keep_shut and self._limits.interactive_is_full(self.running_interactive):
            return self._gate.stand_open(now, Cause.FULL, "interactive is at its ceiling")
        return self._gate.observe(
            load,
            now,
            slots=self._place.segment.total,
            free=self._place.others_free + max(0, self.slots - self.running),
            running_here=self.running_interactive,
            keep_shut=keep_shut,
        )

    @property
    def _engine_counts(self) -> bool:
        """Whether batch gives way to an engine that queues."""
        return self._engine.queueing and BATCH in self.serves

    def _derive(self, now: float) -> None:
        """Compute all that the hot path compares with."""
        settings, total = self._settings, self._place.segment.total
        share = settings.share_at(self._load.batch_oldest_wait_seconds)
        share = self._engine.share(share, settings.least_share)
        guaranteed = settings.guaranteed(total, share)
        traffic = self._meter.traffic(self._place, self.slots, self.running_batch)
        view = self._place.view
        if self.yields_per_second and (view is None or view.workers == 1):  # others don't tell it
            traffic = replace(
                traffic,
                yields_per_second=self.yields_per_second,
                slot_back_seconds=self.slot_back_seconds,
            )
        if self._serves_both:
            wanted = self._reserve.update(traffic, now)
            self.fleet_reserve = max(0, min(wanted, total - guaranteed))
        else:
            self.fleet_reserve = 0
            self.mode = self._gate.mode
        self._limits = divide(
            settings,
            self.serves,
            self._load,
            self.mode,
            self._place,
            guaranteed=guaranteed,
            fleet_reserve=self.fleet_reserve,
            usual=self._reserve.usual(traffic),
        )
        self._owed_ceiling = self._limits.owed_ceiling
        protected = self.mode is Mode.PROTECTED and guaranteed
        self._batch_begins = total - guaranteed if protected else self.fleet_reserve
        if self._engine_counts and not self._share.in_tasks:
            # Only what is owed: a ceiling is a whole slot, more than a small share of few slots.
            # Counted in tasks nothing would be owed where no interactive task starts.
            self._limits = replace(self._limits, batch_ceiling=0)
        if self.listening:
            self._limits = replace(self._limits, batch_ceiling=0, owed_ceiling=0)
        self._known_credits: dict[tuple[int, int, int], Credits] = {}
        self.reserve = self._limits.reserve
        self._share.tick(
            now,
            waits=BATCH in self.serves and self._load.batch_waits,
            running=self.running_batch + self._place.others_batch,
            share=share,
            slots=self._place.answers_for(guaranteed),
            batch_mean=traffic.batch_seconds,
            longest_mean=max(traffic.interactive_seconds, traffic.batch_seconds),
            distance=self._place.segment.distance(guaranteed),
            trusts=self._place.trusts,
        )
        self._lookahead.configure(
            settings.lookahead_seconds,
            self.slots,
            settings.prefetch_multiplier,
            self._meter.interactive,
            self._meter.batch,
        )
