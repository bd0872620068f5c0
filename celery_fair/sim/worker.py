"""A worker in virtual time: two lanes that pull by credit, slots that the policy hands out."""

from __future__ import annotations

from celery_fair.policy import (
    BATCH,
    INTERACTIVE,
    KINDS,
    Credits,
    FleetView,
    Kind,
    Load,
    Member,
    Policy,
    PolicySettings,
)
from celery_fair.policy.holding import hold_seconds
from celery_fair.policy.tenant_rules import TenantRules
from celery_fair.policy.tenants import Turn
from celery_fair.policy.yields import YieldRules
from celery_fair.sim.lanes import Host, Lane
from celery_fair.sim.places import Places
from celery_fair.sim.queues import Queue
from celery_fair.sim.task import Task
from celery_fair.sim.yielding import Asking

DOUBT_SECONDS = 0.1
"""How long a lane must be silent that says otherwise than the last count (`worker.lanes`)."""


class Worker:
    """Pulls, dispatches and ticks just as the real one does, around the same `Policy`."""

    def __init__(
        self,
        index: int,
        slots: int,
        settings: PolicySettings,
        host: Host,
        queues: dict[Kind, Queue],
        tenants: TenantRules | None = None,
        yields: YieldRules | None = None,
        waiting_room: int = 256,
    ) -> None:
        self.index = index
        self.name = f"worker-{index:05d}"
        self.slots = slots
        self.host = host
        self.settings = settings
        self._pushes = host.pushes
        self._silence = min(max(2 * host.round_trip_seconds, 0.001), 0.05)
        """So long a lane waits for what may be on its way (`worker.windows`)."""
        self._most_aside = waiting_room
        """So many messages of a kind, at the most, wait here for something that they use."""
        self.alive = True
        self.life = 0
        self._queues = queues
        self._tenants = tenants
        self._yields = yields
        self._boot()

    def _boot(self) -> None:
        self.policy = Policy(self.settings, slots=self.slots, now=self.host.now)
        self._lanes = self.interactive, self.batch = (
            Lane(self, [self._queues[INTERACTIVE]], INTERACTIVE, tenants=self._tenants),
            Lane(self, [self._queues[BATCH]], BATCH, tenants=self._tenants),
        )
        self.running: dict[Task, Turn | None] = {}
        self.yieldable = self.others_free = self._spare = 0
        self.others_may_take = False
        self._granted: Credits | None = None
        self._asking = False
        store = self.host.store
        self.places = None if store is None else Places(store, self.name, self.life)
        self.asking = None if self._yields is None else Asking(self, self._yields)

    def lane(self, kind: Kind) -> Lane:
        """The lane of a kind."""
        return self.batch if kind == BATCH else self.interactive

    def die(self) -> list[Task]:
        """Stop at once; return the messages that go back to the broker, oldest first."""
        self.alive = False
        lost = self.unfinished()
        for lane in (self.interactive, self.batch):
            lane.credit = 0
            self.host.withdraw(lane)
            lane.closed = True
        self.running.clear()
        return sorted(lost, key=lambda task: task.published)

    def unfinished(self) -> list[Task]:
        """What it holds or runs."""
        lost = [*self.running, *self.interactive.held, *self.batch.held]
        return lost if self.places is None else [*lost, *self.places.waiting.values()]

    def restart(self) -> None:
        """Begin again with nothing learnt."""
        self.alive = True
        self.life += 1
        self._boot()
        self.advance()

    def advance(self, _: object = None) -> None:
        """Dispatch what may start, then set the lanes' windows. Runs after every event.

        So it compares before it calls: half of a simulation's time is spent here.
        """
        if not self.alive:
            return
        now = self.host.now
        interactive, batch = self.interactive, self.batch
        if self.places is not None:
            self._take_places(self.places, now)
        if (interactive.held or batch.held) and len(self.running) < self.slots:
            self._dispatch(now)
        credits = self.policy.credits(now)
        if credits is not self._granted or self.yieldable != self._spare:
            self._grant(credits, now)
        for lane in self._lanes:
            if lane.credit > len(lane.held):
                if not lane.under_way or self._pushes:
                    self._pull(lane)
            elif lane.parked:
                self.host.withdraw(lane)
        if self.asking is not None:
            self.asking.look(now)

    def _dispatch(self, now: float) -> None:
        interactive, batch, policy = self.interactive, self.batch, self.policy
        running, slots = self.running, self.slots
        while len(running) < slots:
            held, batch_held = len(interactive.held), len(batch.held)
            if not held and not batch_held:
                return
            empty = not batch_held or (
                not held and (self._is_blocked(interactive) or self._is_empty(interactive))
            )
            kind = policy.pick(held, batch_held, now, empty)
            if kind is None:
                if not empty:
                    self._ask_first(now)
                return
            lane = batch if kind == BATCH else interactive
            if len(lane.held) >= lane.credit:  # there was no room
                lane.asked_at = now
            task = lane.held.popleft()
            turns = lane.turns
            running[task] = None if turns is None else turns.start(task.tenant, now)
            policy.start(kind, now, now - task.received)
            self.host.run_task(self, task)

    def _grant(self, credits: Credits, now: float) -> None:
        """Let the lanes hold so many; the broker is asked anew where there was no room."""
        self._granted, self._spare = credits, self.yieldable
        allowed = credits.interactive + self.yieldable, credits.batch
        for lane, credit in zip(self._lanes, allowed, strict=True):
            if credit != lane.credit:
                if len(lane.held) >= lane.credit:
                    lane.asked_at = now
                lane.credit = credit

    def _ask_first(self, now: float) -> None:
        """Look again when the interactive lane has had time to answer."""
        if not self._asking:
            self._asking = True
            silence = max(self._silence_left(self.interactive), self._silence)
            self.host.at(now + silence, self._asked)

    def _asked(self, _: object) -> None:
        self._asking = False
        self.advance()

    def receive(self, lane: Lane, task: Task) -> None:
        """A fetch was answered."""
        task.received = lane.asked_at = self.host.now
        if self.others_may_take and self._is_beyond_room(lane):
            self.host.give_back([task])
            return
        if task.uses and self.places is not None:
            self.places.want(task)
            lane.aside += 1
        else:
            lane.held.append(task)
        self.advance()

    def _is_beyond_room(self, lane: Lane) -> bool:
        """Whether a fetch has outlived the credit it was sent for: another worker may have a slot.

        A little is kept, as it is for a slot that frees soon.
        """
        return lane.credit + lane.credit // 2 <= len(lane.held)

    def finish(self, task: Task) -> None:
        """A task's slot is free again."""
        now = self.host.now
        turn = self.running.pop(task)
        seconds = now - task.started
        if turn is not None:
            self.lane(task.kind).turns.end(turn, seconds)  # type: ignore[union-attr]
        self.policy.finish(task.kind, now, seconds)
        if self.asking is not None:
            self.asking.left(task, now)
        if self.places is None:
            self.advance()
            return
        self.places.end(task)
        self.advance()
        self.host.wake_others(self)

    def leave(self, task: Task) -> None:
        """A task has yielded, and goes on where there is a slot."""
        task.left -= self.host.now - task.started
        self.host.stop_task(task)
        self.finish(task)

    def tick(self) -> None:
        """Read the sensor and tell the policy."""
        now, load = self.host.now, self._load()
        self.policy.observe(load, now)
        if self._tenants is not None:
            self._tick_tenants(self._tenants, load)
        if self.asking is not None:  # others that are free come before a yield
            others_free = self.others_free > 0
            self.yieldable = 0 if others_free else self.asking.tick(now)
        self.advance()
        for lane in self._lanes:
            if len(lane.held):
                self._give_back(lane)

    def _tick_tenants(self, rules: TenantRules, load: Load) -> None:
        for kind in KINDS:
            turns = self.lane(kind).turns
            assert turns is not None
            turns.go_by(rules, self.policy.stretch(kind))
            left = load.batch_backlog if kind == BATCH else load.interactive_backlog
            turns.tick(self.host.now, nobody_waits=left == 0)

    def see(self, view: FleetView | None) -> None:
        """Take in the other workers' last words."""
        if view is not None:
            mine = self.policy.running
            others = view.running_interactive + view.running_batch - mine
            self.others_free = max(view.slots - self.slots - others, 0)
            self.others_may_take = view.workers > 1
        self.policy.see_fleet(view, self.host.now)

    def lose_sight(self, cut_off: bool) -> None:
        """The other workers' words no longer come."""
        self.policy.lose_sight(self.host.now, cut_off)

    def word(self) -> Member:
        """This worker's word to the others."""
        return self.policy.member(self.name)

    def mode_changes(self) -> int:
        """How often its gate has shut or opened."""
        return sum(self.policy.view(self.host.now).mode_changes.values())

    def _take_places(self, places: Places, now: float) -> None:
        """Ask for what is used by as many tasks as a lane may hold: others can't start yet."""
        credits = self.policy.credits(now)
        room: dict[Kind, int] = {
            INTERACTIVE: max(credits.interactive - len(self.interactive.held), 0),
            BATCH: max(credits.batch - len(self.batch.held), 0),
        }
        for task in places.ask(room):
            lane = self.lane(task.kind)
            lane.aside -= 1
            lane.held.append(task)

    def _pull(self, lane: Lane) -> None:
        """Ask for more, unless too many wait here for something that they use."""
        if self._is_blocked(lane):
            if lane.parked:
                self.host.withdraw(lane)
            return
        most = lane.credit - len(lane.held) if self._pushes else 1
        while lane.under_way < most:
            self.host.fetch(lane)

    def _give_back(self, lane: Lane) -> None:
        """Return what has been held for long, with credit or without: others may start it."""
        usual = self.host.hold_max_seconds
        seconds = hold_seconds(usual, self.others_free, self.policy.fleet_reserve)
        overdue = lane.overdue(self.host.now - seconds)
        for task in overdue:
            lane.held.remove(task)
            if self.places is not None:
                self.places.end(task, began=False)
        if overdue:
            self.host.give_back(overdue)

    def _is_blocked(self, lane: Lane) -> bool:
        """Whether so many wait for what they use that it looks no further into its queue."""
        return lane.aside >= self._most_aside

    def _is_empty(self, lane: Lane) -> bool:
        if lane.held or not lane.credit or self._is_blocked(lane):
            return False
        return self._silence_left(lane) <= 0

    def _silence_left(self, lane: Lane) -> float:
        """For how much longer the broker must be silent until that means that it has nothing."""
        needed = max(DOUBT_SECONDS, self._silence) if lane.doubtful else self._silence
        return needed - (self.host.now - lane.asked_at)

    def _load(self) -> Load:
        now = self.host.now
        interactive, batch = self.interactive, self.batch
        ages: dict[Kind, float] = {}
        for task in self.running:  # the one that has run for longest comes first
            if task.kind not in ages:
                ages[task.kind] = now - task.started
                if len(ages) == len(KINDS):
                    break
        first = interactive.first if len(interactive.held) else None
        return Load(
            interactive_backlog=self._backlog(interactive),
            batch_backlog=self._backlog(batch),
            interactive_oldest_wait_seconds=0.0 if first is None else now - first.received,
            batch_oldest_wait_seconds=max(
                (now - task.published for task in batch.held), default=0.0
            ),
            interactive_oldest_run_seconds=ages.get(INTERACTIVE, 0.0),
            batch_oldest_run_seconds=ages.get(BATCH, 0.0),
            interactive_lane_empty=self._is_empty(interactive),
            batch_lane_empty=self._is_empty(batch),
            engine_pressure=self.host.engine_pressure(),
        )

    def _backlog(self, lane: Lane) -> int | None:
        ready = self.host.backlog(lane.kind)
        lane.doubtful = bool(ready)
        if self._is_blocked(lane):
            return len(lane.held)
        return None if ready is None else ready + len(lane.held)
