"""Run a scenario on the policy, event by event, in virtual time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, Kind, Member, PolicySettings, fleet_view
from celery_fair.sim.result import Result, Task
from celery_fair.sim.scenario import Outage, Scenario, is_blind
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
        self.ready: dict[Kind, deque[Task]] = {kind: deque() for kind in KINDS}
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
            if self.ready[lane.kind]:
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

    def backlog(self, kind: Kind) -> int | None:
        """What is ready at the broker, unless the sensor is blind."""
        return None if is_blind(self.scenario, self.now) else len(self.ready[kind])

    # The broker.

    def publish(self, kind: Kind) -> None:
        """Put a new message at the end of the queue."""
        task = Task(next(self._ids), kind, self.now, next(self._services[kind]))
        self.result.tasks.append(task)
        self.ready[kind].append(task)
        self._serve(kind)

    def _serve(self, kind: Kind) -> None:
        while self.ready[kind] and self.waiting[kind]:
            self._deliver(*self.waiting[kind].popleft())

    def _deliver(self, worker: Worker, lane: Lane) -> None:
        task = self.ready[lane.kind].popleft()
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

    def _times(self, kind: Kind) -> Iterator[float]:
        source = random.Random(f"{self.seed} {kind} arrivals")
        return heapq.merge(*(part.times(source) for part in self.scenario.work(kind).arrivals))

    def _next_arrival(self, kind: Kind, times: Iterator[float]) -> None:
        time = next(times, None)
        if time is None or time >= self.scenario.end:
            return

        def arrive() -> None:
            self.publish(kind)
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
