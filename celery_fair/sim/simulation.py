"""A broker, workers, and one clock that jumps between events."""

from __future__ import annotations

import contextlib
import gc
import math
import random
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import chain, count
from typing import Any

from celery_fair.policy import BATCH, KINDS, Kind
from celery_fair.resources.memory_store import MemoryStore
from celery_fair.sim.lanes import Act, Lane, SimWorker
from celery_fair.sim.load import Loads
from celery_fair.sim.queues import Queue
from celery_fair.sim.recorder import SAMPLES, Recorder
from celery_fair.sim.scenario import Outage, Scenario, is_blind, pressure
from celery_fair.sim.setups import Setup
from celery_fair.sim.task import Stream, Task
from celery_fair.sim.words import Words
from celery_fair.sim.worker import Worker


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """Tasks end in no circle, and looking for some among millions of them takes its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Simulation:
    """Runs once. The same seed gives the same arrivals and run times whatever the setup."""

    def __init__(self, scenario: Scenario, setup: Setup, seed: int, recorder: Recorder) -> None:
        self.scenario = scenario
        self.recorder = recorder
        self._on_start = recorder.start
        self.now = 0.0
        self.round_trip_seconds = scenario.round_trip_seconds
        self._half = scenario.round_trip_seconds / 2
        self._start_seconds = scenario.start_seconds
        self.hold_max_seconds = scenario.hold_max_seconds
        self.pushes = scenario.pushes
        self.until = scenario.end + scenario.grace
        rules = {one.name: one for one in scenario.resources}
        self.store = MemoryStore(rules, clock=lambda: self.now) if rules else None
        self.events: list[tuple[float, int, Act, Any]] = []
        self.numbers = count()
        self._noise = random.Random(f"{seed} noise")
        self.cut_short: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
        self.published: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self.begun: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        """Tasks that have started at least once."""
        self.queues = setup.queues(scenario)
        self._backlog = scenario.batch.backlog
        self.loads = Loads(self, seed)
        self.workers = setup.workers(scenario, self, self.queues)
        self._fair = [worker for worker in self.workers if isinstance(worker, Worker)]
        self._words = Words(scenario, self._fair)

    def run(self, progress: Callable[[float], None] | None = None) -> None:
        """Run to the end of the grace; ``progress`` hears of each hundredth."""
        self.loads.begin()
        for outage in self.scenario.outages:
            self._plan(outage)
        for worker in self._fair:
            self.at(self._noise.random() * self.scenario.sensor_seconds, self._tick, worker)
        for one in self.workers:
            one.advance()
        self.at(self.scenario.warmup, self._sample)
        if progress is not None:
            for part in range(1, 101):
                self.at(self.until * part / 100, progress, part / 100)
        with _no_collecting():
            self._loop()
        self.recorder.left(chain(self._in_workers(), self._on_the_way()), self.until)
        for queue in set(self.queues.values()):
            for source, published, number in queue.left():
                self.recorder.waits(source, published, number, self.until)

    def _loop(self) -> None:
        events, until, pop = self.events, self.until, heappop
        while events and events[0][0] <= until:
            self.now, _, act, what = pop(events)
            act(what)

    def _sample(self, _: object) -> None:
        self.recorder.sample()
        if self.now < self.scenario.end:
            self.at(self.now + self.scenario.duration / SAMPLES, self._sample)

    def at(self, time: float, act: Act, what: object = None) -> None:
        """Call ``act`` with ``what`` at this time."""
        heappush(self.events, (time, next(self.numbers), act, what))

    # What workers ask for.

    def fetch(self, lane: Lane) -> None:
        """Ask for a message half a round trip from now, or wait at the broker for one."""
        lane.under_way += 1
        lane.fetched_at = self.now
        heappush(self.events, (self.now + self._half, next(self.numbers), self._asked, lane))

    def _asked(self, lane: Lane) -> None:
        if lane.closed:
            return
        for queue in lane.queues:
            if queue.count:
                self._deliver(lane, queue)
                return
        lane.parked += 1
        for queue in lane.queues:
            queue.waiting[lane] = None

    def withdraw(self, lane: Lane) -> None:
        """Stop waiting: at once, or when the poll ends by itself."""
        poll = self.scenario.poll_seconds
        passed = self.now - lane.fetched_at
        end = lane.fetched_at + poll * math.ceil(passed / poll) if poll else 0.0
        if end <= self.now or not lane.worker.alive:
            self._unpark(lane)
        elif lane.poll_ends_at != end:
            lane.poll_ends_at = end
            self.at(end, self._poll_ends, lane)

    def _poll_ends(self, lane: Lane) -> None:
        if lane.parked and len(lane.held) >= lane.credit:
            self._unpark(lane)
            lane.worker.advance()

    def _unpark(self, lane: Lane) -> None:
        if lane.parked:
            for queue in lane.queues:
                del queue.waiting[lane]
        lane.under_way -= lane.parked
        lane.parked = 0

    def run_task(self, worker: SimWorker, task: Task) -> None:
        """End the task when its time is over, unless its worker dies before."""
        now = self.now
        if task.waited_until == math.inf:
            self.begun[task.kind] += 1
        self._on_start(task, now)
        task.started = now
        task.worker = worker
        task.ends_at = end = now + self._start_seconds + task.left
        heappush(self.events, (end, next(self.numbers), self._end, task))
        if self._backlog and task.kind == BATCH:
            self.top_up()

    def _end(self, task: Task) -> None:
        if task.ends_at != self.now:  # it was cut short
            return
        task.ends_at = math.inf
        self.recorder.stop(task, self.now, done=True)
        task.worker.finish(task)

    def stop_task(self, task: Task) -> None:
        """It has yielded: its message goes to the front of its queue."""
        task.ends_at = math.inf
        self.recorder.stop(task, self.now, done=False)
        self.at(self.now + self._half, self._put_back, task)

    def _put_back(self, task: Task) -> None:
        task.started = math.inf
        self.queues[task.kind].put_back(task)
        self._serve(self.queues[task.kind])

    def give_back(self, tasks: list[Task]) -> None:
        """Put messages back at the head of their queue, oldest first."""
        for task in reversed(tasks):
            if task.started < math.inf:
                self.cut_short[task.kind] += self.now - task.started
                self.recorder.stop(task, self.now, done=False)
                task.left = task.service
            task.started = task.ends_at = math.inf
            self.queues[task.kind].put_back(task)
        for queue in set(self.queues.values()):
            self._serve(queue)

    def wake_others(self, worker: SimWorker) -> None:
        """Something was given back: those for whom it was set aside hear of it."""
        assert self.store is not None
        for other in self._fair:
            if other is not worker and other.alive and self.store.woken(other.name, 0.0):
                self.at(self.now + self.round_trip_seconds, other.advance)

    def engine_pressure(self) -> float | None:
        """What each worker's load probe says."""
        return pressure(self.scenario, self.now) if self.scenario.engine else None

    def backlog(self, kind: str) -> int | None:
        """What is ready at the broker, unless the sensor is blind."""
        if self.scenario.blind and is_blind(self.scenario, self.now):
            return None
        return self.queues[kind].count  # type: ignore[index]

    # The broker.

    def publish(self, source: Stream | Task, size: int = 1) -> None:
        """Put new messages at the end of their queue."""
        self.published[source.kind] += size
        queue = self.queues[source.kind]
        queue.put(source, self.now, size)
        if queue.waiting:
            self._serve(queue)

    def _serve(self, queue: Queue) -> None:
        waiting = queue.waiting
        while queue.count and waiting:
            lane: Any = waiting.popitem(last=False)[0]
            lane.parked -= 1
            for other in lane.queues:
                if lane.parked:
                    other.waiting[lane] = None
                    other.waiting.move_to_end(lane)
                elif other is not queue:
                    del other.waiting[lane]
            self._deliver(lane, queue)

    def _deliver(self, lane: Lane, queue: Queue) -> None:
        if lane.rotates and lane.queues[-1] is not queue:
            lane.queues.remove(queue)
            lane.queues.append(queue)
        what = lane, queue.take(lane.turns)
        heappush(self.events, (self.now + self._half, next(self.numbers), self._bring, what))

    def _bring(self, what: tuple[Lane, Task]) -> None:
        lane, task = what
        if lane.closed:
            self.give_back([task])
            return
        lane.under_way -= 1
        lane.worker.receive(lane, task)

    def top_up(self) -> None:
        """Publish until as much batch waits as always does."""
        missing = self._backlog - (self.published[BATCH] - self.begun[BATCH])
        if missing > 0 and self.loads.endless is not None:
            self.publish(self.loads.endless, missing)

    # Workers.

    def _plan(self, outage: Outage) -> None:
        worker = self.workers[outage.worker]
        self.at(outage.at, lambda _: self.give_back(worker.die()))
        if outage.until < self.until:
            self.at(outage.until, lambda _: worker.restart())

    def _tick(self, worker: Worker) -> None:
        if worker.alive:
            if self._words.are_told:
                self._words.exchange(worker, self.now)
            worker.tick()
        pause = self.scenario.sensor_seconds * self._noise.uniform(0.8, 1.2)
        self.at(self.now + pause, self._tick, worker)

    def _in_workers(self) -> Iterator[Task]:
        for worker in self.workers:
            yield from worker.unfinished()

    def _on_the_way(self) -> Iterator[Task]:
        for _, _, act, what in self.events:
            if act == self._bring:
                yield what[1]
            elif act == self._put_back:
                yield what
