"""What celery-fair would have made of the tasks that a fleet has run in Celery's own order.

The fleet's tasks are run again in the simulator, twice: as plain Celery runs them, which is held
against what was measured and so tells how far a replay is to be trusted here; and by the policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from celery_fair.observe.finished import Finished, since_of, unpacked
from celery_fair.policy import PolicySettings
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.sim import Scenario, Task, Work, constant
from celery_fair.sim.lanes import Host, SimWorker
from celery_fair.sim.plain import PlainWorker, Window
from celery_fair.sim.queues import Queue
from celery_fair.sim.setups import Queues, Setup
from celery_fair.sim.simulation import Simulation
from celery_fair.sim.task import Stream
from celery_fair.sim.trace import Arrival
from celery_fair.sim.worker import Worker

TOLERANCE: Final = 0.15
"""A replay of plain Celery that is further off says nothing about anything else."""
SMALL_SECONDS: Final = 0.05
"""Of waits up to here the machine has a part in each; they may be off by `SMALL_ERROR`."""
SMALL_ERROR: Final = 0.010
LEAST_TASKS: Final = 50
"""Of a kind: a 95 % quantile of fewer is one of the two longest waits."""
MOST_UNDATED: Final = 0.05
"""Part of the tasks whose messages may say nothing of when they were published."""
MOST_LOOKS: Final = 400_000
"""Times that simulated workers look at their queues, four a second: a day of one, an hour of 28."""
SETTLING_SECONDS: Final = 0.2
"""In which what ran at the beginning gets its slots again, before anything else comes."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One worker and what it has seen; ``since`` and times of tasks are epoch seconds."""

    slots: int
    prefetch: int
    policy: PolicySettings
    tasks: Sequence[Finished]
    since: float
    pushes: bool = False
    in_turn: bool = True
    kinds: tuple[Kind, ...] = KINDS
    sensor_seconds: float = 0.25
    hold_max_seconds: float = 30.0
    left_out: tuple[str, ...] = ()
    """Settings in force that a replay takes no account of."""


@dataclass(frozen=True, slots=True)
class KindReplay:
    """Of one kind, the tasks published in the span; seconds.

    ``error``: how far the replayed 95 % quantile is off the measured one, as a ratio. ``would_be``
    and the like are ``None`` where that is too far; ``why`` says so.
    """

    tasks: int
    measured: Mapping[str, float] | None = None
    replayed: Mapping[str, float] | None = None
    would_be: Mapping[str, float] | None = None
    error: float | None = None
    later_mean: float | None = None
    """How much later a task would have ended on average; negative is earlier."""
    later_last: float | None = None
    """How much later the last of them would have ended."""
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """What a replay has come to. ``why`` says why there is none."""

    seconds: float = 0.0
    until: float = 0.0
    workers: int = 0
    slots: int = 0
    tasks: int = 0
    of: Mapping[Kind, KindReplay] | None = None
    left_out: tuple[str, ...] = ()
    why: str | None = None

    def report(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def p95s(found: Counterfactual | None) -> dict[str, dict[str, float]]:
    """By kind the 95 % quantiles that there are, ``measured`` and ``would_be``, and ``error``."""
    figures: dict[str, dict[str, float]] = {}
    for kind, part in ((found.of if found else None) or {}).items():
        of_kind = figures.setdefault(kind, {})
        if part.measured is not None:
            of_kind["measured"] = part.measured["p95"]
        if part.would_be is not None:
            of_kind["would_be"] = part.would_be["p95"]
        if part.error is not None:
            of_kind["error"] = part.error
    return figures


def read(pages: Sequence[Mapping[str, Any]]) -> Watched:
    """One worker's answers, the newest page first. Raises KeyError, TypeError, ValueError."""
    tasks = [task for page in reversed(pages) for task in unpacked(page["tasks"])]
    newest, last = pages[0], pages[-1]
    known = PolicySettings.__dataclass_fields__
    policy = {name: value for name, value in newest["policy"].items() if name in known}
    return Watched(
        slots=int(newest["slots"]),
        prefetch=int(newest["prefetch"]),
        policy=PolicySettings(**policy),
        tasks=tasks,
        since=since_of(last, tasks),
        pushes=bool(newest["pushes"]),
        in_turn=bool(newest["in_turn"]),
        kinds=tuple(kind for kind in KINDS if kind in newest["kinds"]),
        sensor_seconds=float(newest["sensor_seconds"]),
        hold_max_seconds=float(newest["hold_max_seconds"]),
        left_out=tuple(map(str, newest["left_out"])),
    )


def counterfactual(fleet: Sequence[Watched], most_tasks: int = 50_000) -> Counterfactual:
    """Replay what a fleet has seen, as far back as all of its workers know it.

    The latest ``most_tasks`` at the most; takes seconds of a core for some ten thousand.
    """
    why = _why_not(fleet)
    if why is not None:
        return Counterfactual(workers=len(fleet), why=why)
    span = _Span.of(fleet, most_tasks)
    if not span.tasks:
        return Counterfactual(workers=len(fleet), why="no task has ended yet")
    undated = sum(not task.dated for task in span.tasks)
    if undated > MOST_UNDATED * len(span.tasks):
        why = (
            f"{undated} of {len(span.tasks)} messages don't say when they were published: let "
            f"publishers have celery-fair too"
        )
        return Counterfactual(workers=len(fleet), tasks=len(span.tasks), why=why)
    plain = _replay(span, PlainFleet(fleet, span))
    fair = _replay(span, FairFleet(fleet))
    return Counterfactual(
        seconds=span.until - span.since,
        until=span.until,
        workers=len(fleet),
        slots=sum(one.slots for one in fleet),
        tasks=len(span.tasks),
        of={kind: _of_kind(kind, span, plain, fair) for kind in KINDS},
        left_out=tuple(sorted({name for one in fleet for name in one.left_out})),
    )


def _why_not(fleet: Sequence[Watched]) -> str | None:
    if not fleet:
        return "no worker observes"
    if any(set(one.kinds) != set(KINDS) for one in fleet):
        return "some workers serve one kind alone, which is not replayed"
    if len({one.policy for one in fleet}) > 1:
        return "workers differ in their settings: fair settings --diff"
    return None


class _Span:
    """The tasks to replay, in the order in which a simulation is to get them.

    What ran as the span began comes first and gets its slots; then what waited; then the rest.
    """

    def __init__(self, since: float, until: float, tasks: Iterable[Finished]) -> None:
        self.since, self.until = since, until
        ended_in_it = sorted(task for task in tasks if task.finished_at > since)
        running = [task for task in ended_in_it if task.started_at < since]
        self.tasks = [task for task in ended_in_it if task.started_at >= since]
        self._running = [task.finished_at - since for task in running]
        self._kinds = [task.kind for task in running]

    @classmethod
    def of(cls, fleet: Sequence[Watched], most_tasks: int) -> _Span:
        until = max((task.finished_at for one in fleet for task in one.tasks), default=0.0)
        looks = min(one.sensor_seconds for one in fleet)
        longest = MOST_LOOKS * looks / len(fleet)
        since = max(until - longest, *(one.since for one in fleet))
        every = [task for one in fleet for task in one.tasks]
        ends = sorted(task.finished_at for task in every if task.finished_at > since)
        if len(ends) > most_tasks:
            since = ends[-most_tasks - 1]
        return cls(since, until, every)

    @property
    def is_late(self) -> bool:
        """Whether most of its messages are acknowledged at their end only."""
        return 2 * sum(task.late for task in self.tasks) > len(self.tasks)

    @property
    def before(self) -> int:
        """How many arrivals come before the first of ``tasks``."""
        return len(self._running)

    def at(self, number: int) -> float:
        """When the simulation gets this one of ``tasks``."""
        return max(self.tasks[number].ready_at - self.since, 0.0) + SETTLING_SECONDS

    @property
    def seconds(self) -> float:
        """How long a simulation may take: twice what it all comes to."""
        busy = sum(task.run_seconds for task in self.tasks) + sum(self._running)
        return 2 * (self.until - self.since + busy) + 60

    def arrivals(self) -> Iterator[Arrival]:
        for kind, left in zip(self._kinds, self._running, strict=True):
            yield Arrival(0.0, kind, left + SETTLING_SECONDS)
        for number, task in enumerate(self.tasks):
            yield Arrival(self.at(number), task.kind, task.run_seconds)


class Run(NamedTuple):
    """When each task of a span began, and ended, in a replay; epoch seconds, ``inf`` for never."""

    started: list[float]
    finished: list[float]


class _Times:
    """Notes when each task begins and ends, and ends the simulation with the last of them."""

    def __init__(self, span: _Span) -> None:
        number = len(span.tasks)
        self.run = Run([math.inf] * number, [math.inf] * number)
        self.simulation: Simulation | None = None
        self._before, self._missing = span.before, number
        self._to_epoch = span.since - SETTLING_SECONDS

    def start(self, task: Task, now: float) -> None:
        if task.number >= self._before:
            self.run.started[task.number - self._before] = now + self._to_epoch

    def stop(self, task: Task, now: float, *, done: bool) -> None:
        if not done or task.number < self._before:
            return
        self.run.finished[task.number - self._before] = now + self._to_epoch
        self._missing -= 1
        if not self._missing and self.simulation is not None:
            self.simulation.events.clear()

    def left(self, tasks: Iterable[Task], until: float) -> None:
        """They have waited for ever."""

    def waits(self, source: Stream | Task, published: float, number: int, until: float) -> None:
        """They too."""

    def sample(self) -> None:
        """Each task tells when it had a slot."""


def _replay(span: _Span, setup: PlainFleet | FairFleet) -> Run:
    nothing = Work(constant(1.0))
    times = _Times(span)
    scenario = Scenario(
        "observed",
        nothing,
        nothing,
        workers=len(setup.fleet),
        slots=max(one.slots for one in setup.fleet),
        warmup=0.0,
        duration=span.until - span.since + 1.0,
        grace=span.seconds,
        sensor_seconds=setup.fleet[0].sensor_seconds,
        hold_max_seconds=setup.fleet[0].hold_max_seconds,
        pushes=setup.fleet[0].pushes,
        poll_seconds=0.0 if setup.fleet[0].pushes else 1.0,
        fleet_delay_seconds=_words_age(len(setup.fleet)),
        trace=span.arrivals,
    )
    of_plan: Setup = setup
    times.simulation = Simulation(scenario, of_plan, 1, times)
    times.simulation.run()
    return times.run


def _words_age(workers: int) -> float | None:
    from celery_fair.worker.fleet import Fleet

    return Fleet("").say_seconds_of(workers) if workers > 1 else None


class PlainFleet:
    """The workers as they are: each with its slots, both queues, and Celery's prefetch count."""

    name = "plain"

    def __init__(self, fleet: Sequence[Watched], span: _Span) -> None:
        self.fleet = fleet
        self._is_late = span.is_late

    def queues(self, scenario: Scenario) -> Queues:
        return {kind: Queue() for kind in KINDS}

    def workers(self, scenario: Scenario, host: Host, queues: Queues) -> list[SimWorker]:
        return [
            PlainWorker(
                index,
                one.slots,
                host,
                [queues[kind] for kind in KINDS],
                Window(one.prefetch, late=self._is_late),
                one.in_turn,
            )
            for index, one in enumerate(self.fleet)
        ]


class FairFleet:
    """The same workers with their policy in force."""

    name = "fair"

    def __init__(self, fleet: Sequence[Watched]) -> None:
        self.fleet = fleet

    def queues(self, scenario: Scenario) -> Queues:
        return {kind: Queue() for kind in KINDS}

    def workers(self, scenario: Scenario, host: Host, queues: Queues) -> list[SimWorker]:
        return [
            Worker(index, one.slots, one.policy, host, queues)
            for index, one in enumerate(self.fleet)
        ]


def _of_kind(kind: Kind, span: _Span, plain: Run, fair: Run) -> KindReplay:
    every = [number for number, task in enumerate(span.tasks) if task.kind == kind]
    judged = [n for n in every if span.tasks[n].ready_at >= span.since and span.tasks[n].dated]
    if len(judged) < LEAST_TASKS:
        why = f"too few tasks were published and ended: {len(judged)}, of {LEAST_TASKS} at least"
        return KindReplay(len(judged), why=why)
    measured = quantiles([span.tasks[n].wait_seconds for n in judged])
    replayed, would_be = (
        quantiles([max(run.started[n] - span.tasks[n].ready_at, 0.0) for n in judged])
        for run in (plain, fair)
    )
    if math.inf in (*replayed.values(), *would_be.values()):
        return KindReplay(len(judged), measured, why="the replay came to no end")
    error = error_of(measured["p95"], replayed["p95"])
    if not agrees(measured["p95"], replayed["p95"]):
        why = (
            f"a replay of plain Celery is off by {min(error, 99.0):.0%}: what happened here is not "
            f"what the simulator knows"
        )
        return KindReplay(len(judged), measured, replayed, None, error, why=why)
    later = [fair.finished[n] - span.tasks[n].finished_at for n in every]
    last = max(fair.finished[n] for n in every) - max(span.tasks[n].finished_at for n in every)
    return KindReplay(
        len(judged),
        measured,
        replayed,
        would_be,
        error,
        _finite(math.fsum(later) / len(later)),
        _finite(last),
    )


def _finite(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def quantiles(waits: Iterable[float]) -> dict[str, float]:
    """Median and 95 % quantile."""
    ordered = sorted(waits)
    return {
        name: ordered[max(math.ceil(q * len(ordered)) - 1, 0)]
        for name, q in (("p50", 0.5), ("p95", 0.95))
    }


def error_of(measured: float, found: float) -> float:
    """How far off, as a part of what was measured; waits under a millisecond count as one."""
    return abs(found - measured) / max(measured, 0.001)


def agrees(measured: float, found: float) -> bool:
    """Whether that is within the bound."""
    if measured <= SMALL_SECONDS:
        return abs(found - measured) <= SMALL_ERROR
    return error_of(measured, found) <= TOLERANCE
