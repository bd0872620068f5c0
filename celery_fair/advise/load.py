"""The load that settings are tried on: stated, or a recorded day whose run times are drawn anew."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, pvariance
from typing import Final

from celery_fair.advise.erlang import Stream
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.trace import Arrival

_DRAWS: Final = 4000
"""Run times that are drawn to know what stated ones are like."""
_NAMES: Final = 1000
"""Of so many task names run times are kept apart; those of others are put together."""


@dataclass(frozen=True, slots=True)
class Load:
    """A scenario, what its kinds are like, and what of it is to be looked at.

    ``batch_tasks``: those that have to be done where that is asked, 0 if nothing ends.
    ``published_by``: batch that came until then counts among them.
    ``scale``: the part of the whole time that ``scenario`` has, with as small a part of the tasks.
    ``cut``: what was left out, in words.
    """

    scenario: Scenario
    streams: dict[Kind, Stream]
    batch_tasks: int = 0
    published_by: float = math.inf
    scale: float = 1.0
    cut: str = ""
    recorded: tuple[Arrival, ...] = ()

    def seeded(self, seed: int) -> Scenario:
        """The scenario with this seed's run times."""
        if not self.recorded:
            return self.scenario
        return replace(self.scenario, trace=partial(_drawn_anew, self.recorded, seed))


def streams_of(scenario: Scenario) -> dict[Kind, Stream]:
    """What stated loads are like: rates, means and variation."""
    return {kind: _stream(scenario, kind) for kind in KINDS}


def _stream(scenario: Scenario, kind: Kind) -> Stream:
    work = scenario.work(kind)
    source = random.Random(f"{kind} run times")
    times = [work.service(source) for _ in range(_DRAWS)]
    mean = fmean(times)
    variation = pvariance(times) / mean**2 if mean else 0.0
    rate = sum(one.rate * one.size for one in work.arrivals)
    bursts = max((one.size for one in work.arrivals if one.rate), default=1)
    return Stream(rate, mean + scenario.start_seconds, variation, float(bursts))


def recorded_streams(arrivals: Sequence[Arrival], seconds: float) -> dict[Kind, Stream]:
    """What recorded kinds are like, over so many seconds."""
    found = {}
    for kind in KINDS:
        times = [one.seconds for one in arrivals if one.kind == kind]
        mean = fmean(times) if times else 0.0
        variation = pvariance(times) / mean**2 if mean else 0.0
        found[kind] = Stream(len(times) / seconds, mean, variation)
    return found


def busiest(arrivals: Sequence[Arrival], seconds: float) -> float:
    """When the stretch of so many seconds begins into which the most work of interactive falls.

    What both kinds bring together decides where interactive brings nothing.
    """
    some = any(one.kind == INTERACTIVE for one in arrivals)
    best = most = work = 0.0
    first = 0
    for one in arrivals:
        work += _work(one, some)
        while one.at - arrivals[first].at > seconds:
            work -= _work(arrivals[first], some)
            first += 1
        if work > most:
            most, best = work, max(one.at - seconds, 0.0)
    return best


def _work(one: Arrival, only_interactive: bool) -> float:
    return one.seconds if one.kind == INTERACTIVE or not only_interactive else 0.0


def _drawn_anew(arrivals: Iterable[Arrival], seed: int) -> Iterator[Arrival]:
    """The same arrivals; each has the run time of some task of its name and kind."""
    pools: dict[tuple[Kind, str], list[float]] = defaultdict(list)
    for one in arrivals:
        pools[_pool(pools, one)].append(one.seconds)
    source = random.Random(f"{seed} recorded run times")
    for one in arrivals:
        known = pools[_pool(pools, one)]
        yield one._replace(seconds=known[int(source.random() * len(known))])


def _pool(pools: dict[tuple[Kind, str], list[float]], one: Arrival) -> tuple[Kind, str]:
    key = one.kind, one.task
    return key if key in pools or len(pools) < _NAMES else (one.kind, "")


def batch_of(arrivals: Iterable[Arrival], until: float) -> int:
    """How many batch tasks had come by then."""
    return sum(one.kind == BATCH and one.at <= until for one in arrivals)
