"""Run a scenario on the policy, event by event, in virtual time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from operator import itemgetter

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, Kind, Member, PolicySettings, fleet_view
from celery_fair.resources.memory_store import MemoryStore
from celery_fair.sim.held import Ready
from celery_fair.sim.places import Places
from celery_fair.sim.result import Result, Task
from celery_fair.sim.scenario import Arrivals, Outage, Scenario, is_blind, pressure
from celery_fair.sim.worker import Lane, Worker

_FORGET_SECONDS = 3.0
"""After how long without a word the others take a worker for dead."""
_FRESH_SECONDS = 3.0
"""Words that are older tell only who is there."""


def run(scenario: Scenario, settings: PolicySettings, seed: int = 1) -> Result:
    """Simulate the scenario once; the same seed gives the same arrivals whatever the settings."""
    return Simulation(scenario, settings, seed).run()


class Simulation:
    """A broker with a FIFO queue per kind, workers, and one clock that jumps between events."""

    def __init__(self, scenario: Scenario, settings: PolicySettings, seed: int) -> None:
        self.scenario = scenario
        self.settings = settings
        self.seed = seed
        self.now = 0.0
        self.round_trip_seconds = scenario.round_trip_seconds
        self.hold_max_seconds = scenario.hold_max_seconds
        self.ready = {kind: Ready(scenario.shards) for kind in KINDS}
        rules = {one.name: one for one in scenario.resources}
        self.store = MemoryStore(rules, clock=lambda: self.now) if rules else None
        self.waiting: dict[Kind, deque[tuple[Worker, Lane]]] = {k: deque() for k in KINDS}
        self.words: dict[str, tuple[float, Member]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers, self._ids = count(), count()
        self._noise = random.Random(f"{seed} noise")
        self._services = {kind: self._draws(kind) for kind in KINDS}
        self.result = Result(
            start=scenario.warmup,
            end=scenario.end,
            observed_until=scenario.end + scenario.grace,
            slots=scenario.workers * scenario.slots,
        )
        self.workers = [
            Worker(index, scenario.slots, settings, self) for index in range(scenario.workers)
        ]

    def run(self) -> Result:
        """Run to the end of the grace and return what was seen."""
        for kind in (BATCH, INTERACTIVE):
            self._next_arrival(kind, self._times(kind))
        self._top_up()
        for outage in self.scenario.outages:
            self._plan(outage)
        for worker in self.workers:
            self.at(self._noise.random() * self.scenario.sensor_seconds, self._ticking(worker))
            worker.advance()
        while self._events and self._events[0][0] <= self.result.observed_until:
            self.now, _, act = heapq.heappop(self._events)
            act()
        self.result.mode_changes = sum(
            sum(w.policy.view(self.now).mode_changes.values()) for w in self.workers
        )
        return self.result

    def at(self, time: float, act: Callable[[], None]) -> None:
        """Call ``act`` at this time."""
        heapq.heappush(self._events, (time, next(self._numbers), act))

    # What workers ask for.

    def fetch(self, worker: Worker, lane: Lane) -> None:
        """Pop a message half a round trip from now, or wait at the broker for one."""
        lane.generation += 1
        generation = lane.generation

        def arrive() -> None:
            if lane.generation != generation or not worker.alive:
                return
            if len(self.ready[lane.kind]):
                self._deliver(worker, lane)
                return
            lane.parked = True
            self.waiting[lane.kind].append((worker, lane))
            self.at(self.now + self.round_trip_seconds / 2, worker.advance)

        self.at(self.now + self.round_trip_seconds / 2, arrive)

    def withdraw(self, worker: Worker, lane: Lane) -> None:
        """Stop waiting: at once, or when the poll ends by itself."""
        generation = lane.generation

        def stop() -> None:
            if lane.parked and lane.generation == generation:
                self.waiting[lane.kind].remove((worker, lane))
                lane.parked = lane.fetching = False
                lane.generation += 1
                worker.advance()

        poll = self.scenario.poll_seconds
        end = lane.asked_at + poll * math.ceil((self.now - lane.asked_at) / poll) if poll else 0.0
        if end <= self.now or not worker.alive:
            stop()
        else:
            self.at(end, lambda: stop() if len(lane.held) >= lane.credit else None)

    def run_task(self, worker: Worker, task: Task) -> None:
        """End the task when its time is over, unless its worker dies before."""
        generation = worker.generation

        def end() -> None:
            if worker.generation != generation:
                return
            task.finished = self.now
            task.endings += 1
            worker.finish(task)

        self.at(self.now + task.service, end)
        if task.kind == BATCH:
            self._top_up()

    def give_back(self, tasks: list[Task]) -> None:
        """Put messages back at the head of their queue, oldest first."""
        for task in reversed(tasks):
            if task.started < self.now:
                self.result.cut_short[task.kind] += self.now - task.started
            task.started = float("inf")
            self.ready[task.kind].appendleft(task)
        for kind in KINDS:
            self._serve(kind)

    def places(self, worker: Worker) -> Places | None:
        """Its part in what workers share, if there is anything."""
        if self.store is None:
            return None
        uses = {kind: self.scenario.work(kind).uses for kind in KINDS}
        return Places(self.store, worker.name, worker.generation, uses)

    def wake_others(self, worker: Worker) -> None:
        """Something was given back: those for whom it was set aside hear of it."""
        if self.store is None:
            return
        for other in self.workers:
            if other is not worker and other.alive and self.store.woken(other.name, 0.0):
                self.at(self.now + self.round_trip_seconds, other.advance)

    def engine_pressure(self) -> float | None:
        """What each worker's load probe says."""
        return pressure(self.scenario, self.now)

    def backlog(self, kind: Kind) -> int | None:
        """What is ready at the broker, unless the sensor is blind."""
        return None if is_blind(self.scenario, self.now) else len(self.ready[kind])

    # The broker.

    def publish(self, kind: Kind, tenant: str | None = None) -> None:
        """Put a new message at the end of its queue."""
        service = next(self._services[kind])
        task = Task(next(self._ids), kind, self.now, service, tenant=tenant)
        self.result.tasks.append(task)
        self.ready[kind].append(task)
        self._serve(kind)

    def _serve(self, kind: Kind) -> None:
        while len(self.ready[kind]) and self.waiting[kind]:
            self._deliver(*self.waiting[kind].popleft())

    def _deliver(self, worker: Worker, lane: Lane) -> None:
        task = self.ready[lane.kind].pop(lane.held.turns)
        lane.parked = False
        generation = worker.generation

        def arrive() -> None:
            if worker.generation != generation:
                self.give_back([task])
            else:
                worker.receive(lane, task)

        self.at(self.now + self.round_trip_seconds / 2, arrive)

    # What drives the load.

    def _draws(self, kind: Kind) -> Iterator[float]:
        work = self.scenario.work(kind)
        source = random.Random(f"{self.seed} {kind} service")
        slots = self.scenario.workers * self.scenario.slots
        for number in count():
            seconds = work.service(source)
            # The first of an endless load are part done, so that the slots are out of step.
            yield seconds * source.random() if work.backlog and number < slots else seconds

    def _times(self, kind: Kind) -> Iterator[tuple[float, str | None]]:
        source = random.Random(f"{self.seed} {kind} arrivals")
        parts = self.scenario.work(kind).arrivals
        return heapq.merge(*(_of_tenant(part, source) for part in parts), key=itemgetter(0))

    def _next_arrival(self, kind: Kind, times: Iterator[tuple[float, str | None]]) -> None:
        time, tenant = next(times, (math.inf, None))
        if time >= self.scenario.end:
            return

        def arrive() -> None:
            self.publish(kind, tenant)
            self._next_arrival(kind, times)

        self.at(time, arrive)

    def _top_up(self) -> None:
        while len(self.ready[BATCH]) < self.scenario.batch.backlog:
            self.publish(BATCH)

    def _plan(self, outage: Outage) -> None:
        worker = self.workers[outage.worker]
        self.at(outage.at, lambda: self.give_back(worker.die()))
        if outage.until < self.result.observed_until:
            self.at(outage.until, worker.restart)

    # Ticks and the fleet.

    def _ticking(self, worker: Worker) -> Callable[[], None]:
        def tick() -> None:
            if worker.alive:
                self._exchange_words(worker)
                worker.tick()
            pause = self.scenario.sensor_seconds * self._noise.uniform(0.8, 1.2)
            self.at(self.now + pause, tick)

        return tick

    def _exchange_words(self, worker: Worker) -> None:
        delay = self.scenario.fleet_delay_seconds
        if delay is None or len(self.workers) < 2:
            return
        if self._is_partitioned(worker):
            said_at, _ = self.words.get(worker.name, (self.now, None))
            if self.now - said_at >= delay + _FORGET_SECONDS:
                worker.lose_sight(cut_off=not all(map(self._is_partitioned, self.workers)))
            return
        said_at, _ = self.words.get(worker.name, (float("-inf"), None))
        if self.now - said_at >= delay:
            self.words[worker.name] = (self.now, worker.word())
        fresh = [
            member for at, member in self.words.values() if self.now - at < delay + _FORGET_SECONDS
        ]
        worker.see(fleet_view(worker.word(), fresh, fresh=delay <= _FRESH_SECONDS))

    def _is_partitioned(self, worker: Worker) -> bool:
        return any(
            part.worker == worker.index and part.at <= self.now < part.until
            for part in self.scenario.partitions
        )


def _of_tenant(part: Arrivals, source: random.Random) -> Iterator[tuple[float, str | None]]:
    return ((time, part.tenant) for time in part.times(source))
