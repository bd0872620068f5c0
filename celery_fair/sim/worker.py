"""A worker in virtual time: two lanes that pull by credit, slots that the policy hands out."""

from __future__ import annotations

from typing import Protocol

from celery_fair.policy import (
    BATCH,
    INTERACTIVE,
    KINDS,
    FleetView,
    Kind,
    Load,
    Member,
    Policy,
    PolicySettings,
)
from celery_fair.policy.tenants import Turn, Turns
from celery_fair.sim.held import Held
from celery_fair.sim.places import Places
from celery_fair.sim.result import Task

ASIDE = 4
"""So many messages a slot, at the most, wait in a worker for something that they use."""


class Lane:
    """One kind inside one worker: the messages it holds and its fetch, if one is under way.

    ``aside``: how many messages wait in the worker for something that they use.
    """

    __slots__ = ("aside", "asked_at", "credit", "fetching", "generation", "held", "kind", "parked")

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.held = Held(Turns())
        self.aside = 0
        self.credit = 0
        self.fetching = False
        self.parked = False
        self.asked_at = 0.0
        self.generation = 0


class Host(Protocol):
    """What a worker needs of the simulation around it."""

    now: float
    round_trip_seconds: float
    hold_max_seconds: float

    def fetch(self, worker: Worker, lane: Lane) -> None:
        """Send a fetch to the broker."""

    def withdraw(self, worker: Worker, lane: Lane) -> None:
        """Take back a fetch that waits at the broker, for lack of credit."""

    def run_task(self, worker: Worker, task: Task) -> None:
        """Run a task in a slot: `Worker.finish` is called when it ends."""

    def give_back(self, tasks: list[Task]) -> None:
        """Put messages back at the head of their queue, oldest first."""

    def backlog(self, kind: Kind) -> int | None:
        """What is ready at the broker, ``None`` if it cannot be read."""

    def places(self, worker: Worker) -> Places | None:
        """A new worker's part in what all of them share; None if that is nothing."""

    def wake_others(self, worker: Worker) -> None:
        """Tell other workers that something was set aside for them."""

    def engine_pressure(self) -> float | None:
        """What a load probe says now."""


class Worker:
    """Pulls, dispatches and ticks just as the real one does, around the same `Policy`."""

    def __init__(self, index: int, slots: int, settings: PolicySettings, host: Host) -> None:
        self.index = index
        self.name = f"worker-{index:03d}"
        self.slots = slots
        self.host = host
        self.settings = settings
        self.alive = True
        self.generation = 0
        self._boot()

    def _boot(self) -> None:
        self.policy = Policy(self.settings, slots=self.slots, now=self.host.now)
        self.lanes = {kind: Lane(kind) for kind in KINDS}
        self.running: dict[int, tuple[Task, Turn]] = {}
        self.places = self.host.places(self)

    def die(self) -> list[Task]:
        """Stop at once; return the messages that go back to the broker, oldest first."""
        self.alive = False
        self.generation += 1
        lost = [task for task, _ in self.running.values()]
        lost += [task for lane in self.lanes.values() for task in lane.held]
        lost += self.places.waiting.values() if self.places is not None else ()
        for lane in self.lanes.values():
            lane.held.clear()
            lane.credit = 0
            self.host.withdraw(self, lane)
        self.running.clear()
        return sorted(lost, key=lambda task: task.published)

    def restart(self) -> None:
        """Begin again with nothing learnt."""
        self.alive = True
        self.generation += 1
        self._boot()
        self.advance()

    def advance(self) -> None:
        """Dispatch what may start, then set the lanes' windows. Runs after every event."""
        if not self.alive:
            return
        now = self.host.now
        interactive, batch = self.lanes[INTERACTIVE], self.lanes[BATCH]
        self._take_places()
        while True:
            empty = self._is_empty(interactive)
            batch_held = 0 if self.policy.leans and interactive.fetching else len(batch.held)
            kind = self.policy.pick(len(interactive.held), batch_held, now, empty)
            if kind is None:
                break
            self._start(self.lanes[kind].held.popleft(), now)
        credits = self.policy.credits(now)
        interactive.credit, batch.credit = credits.interactive, credits.batch
        for lane in (interactive, batch):
            self._pull(lane)

    def receive(self, lane: Lane, task: Task) -> None:
        """A fetch was answered."""
        task.received = self.host.now
        task.worker = self.index
        lane.fetching = False
        if self.places is not None and self.places.wants(task):
            lane.aside += 1
        else:
            lane.held.append(task)
        self.advance()

    def finish(self, task: Task) -> None:
        """A task's slot is free again."""
        seconds = self.host.now - task.started
        _, turn = self.running.pop(task.number)
        self.lanes[task.kind].held.turns.end(turn, seconds)
        self.policy.finish(task.kind, self.host.now, seconds)
        if self.places is not None:
            self.places.end(task)
        self.advance()
        self.host.wake_others(self)

    def tick(self) -> None:
        """Read the sensor and tell the policy."""
        load = self._load()
        self.policy.observe(load, self.host.now)
        for lane, left in (
            (self.lanes[INTERACTIVE], load.interactive_backlog),
            (self.lanes[BATCH], load.batch_backlog),
        ):
            lane.held.turns.tick(self.host.now, nobody_waits=left == 0)
        self.advance()
        for lane in self.lanes.values():
            self._give_back(lane)

    def see(self, view: FleetView | None) -> None:
        """Take in the other workers' last words."""
        self.policy.see_fleet(view, self.host.now)

    def lose_sight(self, cut_off: bool) -> None:
        """The other workers' words no longer come."""
        self.policy.lose_sight(self.host.now, cut_off)

    def word(self) -> Member:
        """This worker's word to the others."""
        return self.policy.member(self.name)

    def _start(self, task: Task, now: float) -> None:
        turn = self.lanes[task.kind].held.turns.start(task.tenant, now)
        self.running[task.number] = task, turn
        task.started = now
        self.policy.start(task.kind, now, now - task.received)
        self.host.run_task(self, task)

    def _take_places(self) -> None:
        """Ask for what is used by as many tasks as could have a slot."""
        if self.places is None:
            return
        free = self.slots - len(self.running) - sum(len(lane.held) for lane in self.lanes.values())
        for task in self.places.ask(dict.fromkeys(KINDS, max(free, 0))):
            lane = self.lanes[task.kind]
            lane.aside -= 1
            lane.held.append(task)

    def _pull(self, lane: Lane) -> None:
        if len(lane.held) < lane.credit and lane.aside < ASIDE * self.slots:
            if not lane.fetching:
                lane.fetching = True
                lane.asked_at = self.host.now
                self.host.fetch(self, lane)
        elif lane.parked:
            self.host.withdraw(self, lane)

    def _give_back(self, lane: Lane) -> None:
        """Return what has been held for long, with credit or without: others may start it."""
        old = self.host.now - self.host.hold_max_seconds
        overdue = [task for task in lane.held if task.received <= old]
        for task in overdue:
            lane.held.remove(task)
            if self.places is not None:
                self.places.end(task, began=False)
        self.host.give_back(overdue)

    def _is_empty(self, lane: Lane) -> bool:
        asked = self.host.now - lane.asked_at >= self.host.round_trip_seconds - 1e-9
        return lane.parked and asked and len(lane.held) < lane.credit

    def _load(self) -> Load:
        now = self.host.now
        interactive, batch = self.lanes[INTERACTIVE], self.lanes[BATCH]
        ages: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
        for task, _ in self.running.values():
            ages[task.kind] = max(ages[task.kind], now - task.started)
        return Load(
            interactive_backlog=self._backlog(interactive),
            batch_backlog=self._backlog(batch),
            interactive_oldest_wait_seconds=(
                0.0 if (first := interactive.held.first) is None else now - first.received
            ),
            batch_oldest_wait_seconds=max(
                (now - task.published for task in batch.held), default=0.0
            ),
            interactive_oldest_run_seconds=ages[INTERACTIVE],
            batch_oldest_run_seconds=ages[BATCH],
            interactive_lane_empty=self._is_empty(interactive),
            batch_lane_empty=self._is_empty(batch),
            engine_pressure=self.host.engine_pressure(),
        )

    def _backlog(self, lane: Lane) -> int | None:
        ready = self.host.backlog(lane.kind)
        return None if ready is None else ready + len(lane.held)
