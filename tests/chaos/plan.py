"""What a chaos run publishes and breaks, and when: a pure function of the seed.

When is told in tasks that have ended, so that a slow machine sees the same run as a fast one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

FIRST, LAST = 0.05, 0.85
"""The part of a run in which faults come: warm before, and time to come to rest after."""
TASKS_A_FAULT = 125
FEWEST, MOST = 12, 80
TASKS_AN_ITEM = 3

ACKS = {"early": 45, "late": 35, "again": 20}
FORMS = {"": 76, ".retrying": 12, ".failing": 4, ".limited": 8}
CANVASES = {"": 94, "group": 3, "chord": 3}

GREEN = ("gevent", "eventlet")
RESIZABLE = ("prefork", *GREEN)

SLOWEST_FAULTS = {"restart_broker": {"redis": 3, "rabbitmq": 2}}
"""How often a run may have them at the most."""
STALL = "stall"
"""Takes longer than a lease, so that the shortest plans have none."""


@dataclass(frozen=True, slots=True)
class Call:
    """One publish: a task, or a group or chord with ``size`` of it."""

    id: str
    name: str
    seconds: float
    countdown: float = 0.0
    times: int = 0
    moving: bool = False
    canvas: str = ""
    size: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one worker, or to the broker, once ``at`` tasks have ended.

    What can be undone is, and what was killed is started, ``lasts`` ends later.
    """

    at: int
    name: str
    worker: int
    lasts: int = 0
    how: str = ""

    def __str__(self) -> str:
        lasts = f", for {self.lasts}" if self.lasts else ""
        how = f" ({self.how})" if self.how else ""
        return f"at {self.at}: {self.name}{how} on worker {self.worker + 1}{lasts}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run."""

    seed: int
    broker: str
    pool: str
    workers: int
    slots: int
    calls: tuple[Call, ...]
    faults: tuple[Fault, ...]
    items: int = 0
    """Of a job that runs beside them; none in the run of plain Celery."""

    @property
    def stalls(self) -> bool:
        """Whether a worker stands still for longer than it keeps its places."""
        return any(fault.name == STALL for fault in self.faults)

    def text(self) -> str:
        """A page for people: what is published by name, and every fault."""
        names = Counter(call.canvas or call.name for call in self.calls)
        return "\n".join(
            [
                f"seed {self.seed}: {self.workers} workers of {self.slots} slots ({self.pool}) on "
                f"{self.broker}, {sum(call.size for call in self.calls)} tasks, and a job of "
                f"{self.items} items",
                *(f"  {count} × {name}" for name, count in sorted(names.items())),
                f"{len(self.faults)} faults, by the number of tasks that have ended",
                *(f"  {fault}" for fault in self.faults),
            ]
        )


def make_plan(seed: int, *, tasks: int, broker: str, pool: str, workers: int | None = None) -> Plan:
    """The plan of a seed; ``workers`` of 2 to 4 are drawn unless given."""
    random = Random(f"{seed} {tasks} {broker} {pool}")
    drawn, slots = random.randint(2, 4), random.randint(2, 4)
    workers = workers or drawn
    return Plan(
        seed,
        broker,
        pool,
        workers,
        slots,
        tuple(_calls(random, tasks)),
        tuple(_faults(random, tasks, broker, pool, workers)),
        tasks // TASKS_AN_ITEM,
    )


def _calls(random: Random, tasks: int) -> Iterator[Call]:
    left = tasks
    for number in range(tasks):
        canvas = _draw(random, CANVASES)
        size = min(random.randint(3, 8), left) if canvas else 1
        yield _call(random, f"{number:05}", canvas, size)
        left -= size
        if left <= 0:
            return


def _call(random: Random, name: str, canvas: str, size: int) -> Call:
    kind, ack, form = random.choice("iib"), _draw(random, ACKS), _draw(random, FORMS)
    seconds = random.uniform(0.001, 0.02) if kind == "i" else random.uniform(0.005, 0.08)
    if kind == "b" and random.random() < 0.01:
        seconds = random.uniform(1.0, 3.0)
    countdown = random.uniform(0.2, 3.0) if random.random() < 0.12 else 0.0
    times = random.randint(1, 3) if form == ".retrying" else 0
    return Call(
        id=name,
        name=f"{kind}.{ack}{'' if canvas else form}",
        seconds=round(seconds, 4),
        countdown=round(countdown, 3),
        times=times,
        moving=random.random() < 0.12,
        canvas=canvas,
        size=size,
    )


def _faults(random: Random, tasks: int, broker: str, pool: str, workers: int) -> Iterator[Fault]:
    number = min(max(tasks // TASKS_A_FAULT, FEWEST), MOST)
    names = _names(random, number, broker, pool)
    for place, name in enumerate(names):
        part = FIRST + (LAST - FIRST) * (place + random.random()) / number
        yield Fault(
            at=int(part * tasks),
            name=name,
            worker=random.randrange(workers),
            lasts=random.randint(tasks // 100, tasks // 25) if name in LASTING else 0,
            how=random.choice(_hows(name, broker, pool)),
        )


FAULTS = {
    "kill_worker": 10,
    "stop_worker": 8,
    "kill_child": 12,
    "cut": 20,
    "restart_broker": 3,
    "gate": 14,
    "move": 12,
    "pause": 12,
    "resize": 9,
    "mode": 10,
    "freeze": 8,
    STALL: 4,
    "clock": 6,
}
LASTING = ("clock", "freeze", "gate", "kill_worker", "mode", "move", "pause", "resize")


def _names(random: Random, number: int, broker: str, pool: str) -> list[str]:
    """Each fault once, the rest by weight, in any order."""
    weights = dict(FAULTS)
    if pool != "prefork":
        del weights["kill_child"]
    if pool not in RESIZABLE:
        del weights["resize"]
    if number <= FEWEST:
        del weights[STALL]
    names = list(weights)
    while len(names) < number:
        name = _draw(random, weights)
        if names.count(name) < SLOWEST_FAULTS.get(name, {}).get(broker, number):
            names.append(name)
    random.shuffle(names)
    return names[:number]


def _hows(name: str, broker: str, pool: str) -> tuple[str, ...]:
    if name in ("kill_worker", STALL):
        return ("all", "main") if pool == "prefork" else ("all",)
    if name == "cut":
        return ("all", "one", "pops") if broker == "redis" else ("all", "one", "abort")
    if name == "restart_broker":
        # A killed RabbitMQ forgets acknowledgements: what that runs twice is no worker's doing.
        return ("stop", "kill") if broker == "redis" else ("stop",)
    return {
        "gate": ("open", "protected"),
        "move": ("interactive",),
        "pause": ("celery", "celery.batch", "moving"),
        "resize": ("grow", "shrink"),
        "mode": ("observe",),
        "clock": ("3600", "-3600"),
    }.get(name, ("",))


def _draw(random: Random, weights: dict[str, int]) -> str:
    return random.choices(list(weights), list(weights.values()))[0]
