"""What a soak publishes and does to its workers, and when: a pure function of the seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

KIND_RATES = {"i": 12.0, "b": 4.0}
"""Calls a second, at random moments."""
KIND_SECONDS = {"i": (0.005, 0.08), "b": (0.05, 0.6)}
BURSTS = {"i": (60.0, 60), "b": (90.0, 150)}
"""How often, and how many at once."""
ACKS = {"early": 60, "late": 40}
FORMS = {"": 78, ".retrying": 10, ".limited": 7, ".failing": 5}
DELAYED = 0.1
GROUPED = 0.03

LASTING, RECYCLED = 0, 1
"""The worker whose memory is judged is never restarted; the other is, again and again."""

CYCLES = {"cut": 60.0, "resize": 30.0, "recycle": 60.0}
RESIZABLE = ("prefork", "gevent", "eventlet")


@dataclass(frozen=True, slots=True)
class Call:
    """One publish: a task, or a group of ``size``."""

    at: float
    id: str
    name: str
    args: tuple[float, ...]
    countdown: float = 0.0
    size: int = 1

    @property
    def ids(self) -> list[str]:
        return [f"{self.id}.{number}" for number in range(self.size)]


@dataclass(frozen=True, slots=True)
class Act:
    """What is done to one worker of each side at the same moment."""

    at: float
    name: str
    worker: int
    slots: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """One stretch of load."""

    seconds: float
    calls: list[Call] = field(repr=False)
    acts: list[Act] = field(repr=False)

    @property
    def tasks(self) -> int:
        return sum(call.size for call in self.calls)


def make_plan(seed: int, name: str, seconds: float, pool: str) -> Plan:
    """The plan of a stretch of that name; another name, another load."""
    random = Random(f"{seed} {name}")
    calls = sorted(_calls(random, name, seconds), key=lambda call: call.at)
    return Plan(seconds, calls, sorted(_acts(random, seconds, pool), key=lambda act: act.at))


def _calls(random: Random, name: str, seconds: float) -> Iterator[Call]:
    numbers = count()
    for kind, rate in KIND_RATES.items():
        at = random.expovariate(rate)
        while at < seconds:
            yield _call(random, at, f"{name}{next(numbers):06}", kind)
            at += random.expovariate(rate)
        every, size = BURSTS[kind]
        for start in _moments(random, seconds, every, phase=0.5):
            for _ in range(size):
                yield _call(random, start, f"{name}{next(numbers):06}", kind)


def _call(random: Random, at: float, name: str, kind: str) -> Call:
    grouped = random.random() < GROUPED
    form = "" if grouped else _draw(random, FORMS)
    args: tuple[float, ...] = (round(random.uniform(*KIND_SECONDS[kind]), 3),)
    if form == ".retrying":
        args += (random.randint(1, 3), round(random.uniform(0.5, 5.0), 2))
    return Call(
        at=at,
        id=name,
        name=f"{kind}.{_draw(random, ACKS)}{form}",
        args=args,
        countdown=round(random.uniform(1.0, 20.0), 2) if random.random() < DELAYED else 0.0,
        size=random.randint(3, 8) if grouped else 1,
    )


def _acts(random: Random, seconds: float, pool: str) -> Iterator[Act]:
    """The last ones come early enough to be over when the stretch is."""
    for place, at in enumerate(_moments(random, seconds, CYCLES["cut"], phase=0.25)):
        yield Act(at, "cut", LASTING if place % 3 < 2 else RECYCLED)
    for at in _moments(random, seconds, CYCLES["recycle"], phase=0.6):
        yield Act(at, "recycle", RECYCLED)
    if pool in RESIZABLE:
        for place, at in enumerate(_moments(random, seconds, CYCLES["resize"], phase=0.1)):
            yield Act(at, "resize", LASTING, slots=-1 if place % 2 else 1)


def _moments(random: Random, seconds: float, every: float, phase: float) -> Iterator[float]:
    for number in range(int(seconds // every)):
        yield (number + phase + 0.2 * random.random()) * every


def _draw(random: Random, weights: dict[str, int]) -> str:
    return random.choices(list(weights), list(weights.values()))[0]
