"""Several setups on the same loads, several seeds each: means, and how sure they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from celery_fair.policy import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.sim.histogram import Histogram
from celery_fair.sim.recorder import OfKind, Statistics
from celery_fair.sim.scenario import Scenario
from celery_fair.sim.setups import PlainSetup, Setup, without_batch
from celery_fair.sim.simulation import Simulation

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}

_STUDENT = (
    12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t distribution, by degrees of freedom from 1 on."""

_NORMAL = 1.96


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: what each kind got in the window, as an observer outside would measure it."""

    seconds: float
    slots: int
    of: Mapping[Kind, OfKind]
    busy: Mapping[Kind, list[float]]
    """Slots that each kind had on average, in each part of the window."""
    longest_batch_gap: float
    mode_changes: int
    published: Mapping[Kind, int]

    def share(self, kind: Kind) -> float:
        """The part of the window's slot-seconds that the kind had."""
        return self.of[kind].slot_seconds / (self.slots * self.seconds)

    @property
    def utilisation(self) -> float:
        """The part of the window's slot-seconds in which anything ran."""
        return sum(self.share(kind) for kind in KINDS)

    def rate(self, kind: Kind) -> float:
        """Tasks of the kind that ended in the window, a second."""
        return self.of[kind].ended_in_window / self.seconds


def simulate(
    scenario: Scenario,
    setup: Setup,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Trial:
    """Run a scenario once, keeping sums only: of any number of tasks."""
    if isinstance(setup, PlainSetup) and setup.without_batch:
        scenario = without_batch(scenario)
    tenants = scenario.has_tenants or scenario.trace is not None
    sums = Statistics(scenario.warmup, scenario.end, tenants=tenants)
    simulation = Simulation(scenario, setup, seed, sums)
    simulation.run(progress)
    return Trial(
        seconds=scenario.duration,
        slots=scenario.workers * scenario.slots,
        of=sums.of,
        busy=sums.busy,
        longest_batch_gap=sums.longest_batch_gap,
        mode_changes=sum(worker.mode_changes() for worker in simulation.workers),
        published=dict(simulation.published),
    )


@dataclass(frozen=True, slots=True)
class Band:
    """The mean over seeds, and how far it may be off: 95 % confidence, by Student's t.

    ``spread`` is ``nan`` for a single seed: one run says nothing about another.
    """

    mean: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band:
        """Return the band of one value a seed; those that are ``nan`` are left out."""
        known = [value for value in values if not math.isnan(value)]
        if not known:
            return cls(math.nan, math.nan)
        if len(known) == 1:
            return cls(known[0], math.nan)
        freedom = len(known) - 1
        factor = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
        return cls(fmean(known), factor * stdev(known) / math.sqrt(len(known)))


@dataclass(frozen=True, slots=True)
class KindOutcome:
    """Of one kind, over all seeds. Times are seconds."""

    waits: Mapping[str, Band]
    pooled: Mapping[str, float]
    """The same quantiles of the waits of all seeds together, as one long day would show them."""
    mean_wait: Band
    rate: Band
    share: Band
    published: int
    never_started: int
    interrupted: int
    """Runs that a yield, or a worker's death, has ended before the task."""
    tenants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a setup comes to on a load, over all seeds."""

    name: str
    seeds: int
    of: Mapping[Kind, KindOutcome]
    utilisation: Band
    longest_batch_gap: Band
    mode_changes: Band
    busy: Mapping[Kind, list[float]]


def outcome(name: str, trials: Sequence[Trial]) -> Outcome:
    """Put the trials of one setup together."""
    return Outcome(
        name=name,
        seeds=len(trials),
        of={kind: _of_kind(kind, trials) for kind in KINDS},
        utilisation=Band.of([trial.utilisation for trial in trials]),
        longest_batch_gap=Band.of([trial.longest_batch_gap for trial in trials]),
        mode_changes=Band.of([float(trial.mode_changes) for trial in trials]),
        busy={
            kind: [fmean(part) for part in zip(*(t.busy[kind] for t in trials), strict=True)]
            for kind in (INTERACTIVE, BATCH)
        },
    )


def _of_kind(kind: Kind, trials: Sequence[Trial]) -> KindOutcome:
    parts = [trial.of[kind] for trial in trials]
    pooled = _merged(part.waits for part in parts)
    names = sorted({name for part in parts for name in part.tenants})
    return KindOutcome(
        waits={
            name: Band.of([part.waits.quantile(q) for part in parts])
            for name, q in QUANTILES.items()
        },
        pooled={name: pooled.quantile(q) for name, q in QUANTILES.items()},
        mean_wait=Band.of([part.waits.mean for part in parts]),
        rate=Band.of([trial.rate(kind) for trial in trials]),
        share=Band.of([trial.share(kind) for trial in trials]),
        published=sum(trial.published[kind] for trial in trials),
        never_started=sum(part.never_started for part in parts),
        interrupted=sum(part.interrupted for part in parts),
        tenants={
            name: _quantiles(_merged(p.tenants[name] for p in parts if name in p.tenants))
            for name in names
        },
    )


def _merged(histograms: Iterable[Histogram]) -> Histogram:
    found = Histogram()
    for one in histograms:
        found.merge(one)
    return found


def _quantiles(waits: Histogram) -> dict[str, float]:
    return {
        "started": waits.count,
        "mean": waits.mean,
        **{name: waits.quantile(q) for name, q in QUANTILES.items()},
    }
