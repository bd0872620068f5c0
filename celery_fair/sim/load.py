"""What drives a simulation: arrivals by rate, an endless backlog, a recorded day."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from celery_fair.policy import BATCH, INTERACTIVE, Kind
from celery_fair.resources.rules import of_kind
from celery_fair.sim.task import Stream, Task
from celery_fair.sim.trace import Arrival

if TYPE_CHECKING:
    from celery_fair.sim.simulation import Simulation


class Loads:
    """Publishes each task at its time. One arrival of each stream is planned, and no more."""

    def __init__(self, simulation: Simulation, seed: int) -> None:
        self._simulation = simulation
        self._seed = seed
        self._end = simulation.scenario.end
        self._task_numbers = count()
        self._bounded = {one.name for one in simulation.scenario.resources}
        self.endless = self._endless()

    def begin(self) -> None:
        """Plan the first arrival of each stream."""
        scenario = self._simulation.scenario
        for kind in (BATCH, INTERACTIVE):
            for number, part in enumerate(scenario.work(kind).arrivals):
                stream = self._stream(kind, number, part.tenant)
                times = part.times(self._source(kind, "arrivals", number))
                self._plan(_Arriving(times, stream, part.size))
        self._simulation.top_up()
        if scenario.trace is not None:
            self._plan_recorded(iter(scenario.trace()))

    def _endless(self) -> Stream | None:
        scenario = self._simulation.scenario
        if not scenario.batch.backlog:
            return None
        early = 0 if scenario.batch.in_step else scenario.workers * scenario.slots
        return self._stream(BATCH, 0, None, early)

    def _stream(self, kind: Kind, number: int, tenant: str | None, early: int = 0) -> Stream:
        work = self._simulation.scenario.work(kind)
        return Stream(
            kind,
            work.service,
            self._source(kind, "service", number),
            self._task_numbers,
            tenant,
            self._used(kind, work.uses),
            work.yields_every if kind == BATCH else 0.0,
            early,
        )

    def _used(self, kind: Kind, uses: Iterable[str]) -> tuple[str, ...]:
        """Of what a task uses that of which there is a bound, its kind's own among them."""
        return tuple(sorted(self._bounded & {*uses, of_kind(kind)}))

    def _source(self, kind: Kind, what: str, number: int) -> random.Random:
        return random.Random(f"{self._seed} {kind} {what}" + (f" {number}" if number else ""))

    def _plan(self, arriving: _Arriving) -> None:
        time = next(arriving.times, math.inf)
        if time < self._end:
            self._simulation.at(time, self._arrive, arriving)

    def _arrive(self, arriving: _Arriving) -> None:
        simulation = self._simulation
        simulation.publish(arriving.stream, arriving.size)
        time = next(arriving.times, math.inf)
        if time < self._end:
            heapq.heappush(
                simulation.events, (time, next(simulation.numbers), self._arrive, arriving)
            )

    def _plan_recorded(self, arrivals: Iterator[Arrival]) -> None:
        found = next(arrivals, None)
        if found is not None and found.at < self._simulation.scenario.end:
            self._simulation.at(found.at, self._arrive_recorded, (found, arrivals))

    def _arrive_recorded(self, what: tuple[Arrival, Iterator[Arrival]]) -> None:
        found, arrivals = what
        simulation = self._simulation
        work = simulation.scenario.work(found.kind)
        task = Task(
            next(self._task_numbers), found.kind, simulation.now, found.seconds, found.tenant,
            self._used(found.kind, found.uses), work.yields_every if found.kind == BATCH else 0.0,
        )  # fmt: skip
        simulation.publish(task)
        self._plan_recorded(arrivals)


class _Arriving:
    """A stream, when its tasks come, and how many at once."""

    __slots__ = ("size", "stream", "times")

    def __init__(self, times: Iterator[float], stream: Stream, size: int) -> None:
        self.times, self.stream, self.size = times, stream, size
