"""What `fair advise` was asked: the load, the targets, and what is today."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from celery_fair.advise.advice import Advice, advise
from celery_fair.advise.load import Load
from celery_fair.advise.measure import Candidate
from celery_fair.advise.stretch import recorded, stated
from celery_fair.advise.targets import (
    Done,
    KeepsUp,
    Rate,
    Target,
    TargetError,
    Wait,
    next_time,
    parse_batch,
    parse_slo,
)
from celery_fair.cli.simulate_load import load_values
from celery_fair.cli.simulate_plan import Plan, PlanError, make_plan
from celery_fair.cli.simulate_setups import cases
from celery_fair.cli.words import duration, plural
from celery_fair.policy import BATCH, INTERACTIVE
from celery_fair.settings import FairSettings
from celery_fair.sim import FairSetup, Scenario
from celery_fair.sim.trace import Arrival, began_at, read_trace

MOST_ARRIVALS: Final = 500_000
"""Of a trace: they are kept, as they are run through many times."""
USUAL_SECONDS: Final = 20.0
MOST_SECONDS: Final = 300.0
RUNS: Final = 40
"""So many runs there is time for, within those bounds of a core's time."""
_SINCE_1970: Final = 3e8
"""Seconds of a clock that tells the time of day: from 1979 on."""


@dataclass(frozen=True, slots=True)
class Asked:
    """All that the search needs, and how it is told."""

    plan: Plan
    targets: tuple[Target, ...]
    load: Load
    today: Candidate
    cost: float
    most_slots: int
    least_piece: float
    margin: float
    most_seconds: float

    def advise(self, step: Callable[[float], None]) -> Advice:
        """Search for an answer."""
        return advise(
            self.load, self.targets, self.today, cost=self.cost, most_slots=self.most_slots,
            least_piece=self.least_piece, margin=self.margin, most_seconds=self.most_seconds,
            first_seed=self.plan.seed, step=step,
        )  # fmt: skip

    @property
    def head(self) -> str:
        """What is simulated."""
        scenario = self.load.scenario
        what = f"{self.plan.trace.name}, " if self.plan.trace is not None else ""
        cut = f" ({self.load.cut})" if self.load.cut else ""
        return (
            f"{what}{plural(scenario.workers, 'worker')}, {duration(scenario.duration)} after "
            f"{duration(scenario.warmup)} simulated{cut}"
        )


def ask(app: Any, file: Path | None, given: Mapping[str, Any]) -> Asked:
    """Check all of it; raise `PlanError` or `TargetError` with what was expected."""
    values = load_values(file, given)
    targets = _targets(values, given)
    plan = make_plan(_with_batch(values, targets))
    if len(plan.settings) != 1:
        raise PlanError([f"settings: expected one, today's, got {len(plan.settings)}"])
    case = cases(plan.model_copy(update={"plain": []}), _today(app))[0]
    assert isinstance(case.setup, FairSetup)
    _check_load(plan, targets, given["margin"])
    load, cost = _load(plan, case.scenario, targets, whole=given["whole"])
    today = Candidate(plan.slots, case.setup.settings, plan.batch.yields_every)
    return Asked(
        plan, tuple(targets), load, today, cost, given["slots_at_most"] or 4 * plan.slots,
        given["yields_at_least"], given["margin"],
        given["most_seconds"] or min(max(USUAL_SECONDS, RUNS * cost), MOST_SECONDS),
    )  # fmt: skip


def _today(app: Any) -> FairSettings:
    from celery_fair.app import Fair

    fair = Fair.of(app)
    return FairSettings() if fair is None else fair.settings


def _targets(values: Mapping[str, Any], given: Mapping[str, Any]) -> list[Target]:
    if not given["slos"]:
        raise TargetError("--slo: expected what is to be met, as in 'interactive p95 < 2s'")
    found: list[Target] = []
    try:
        for text in given["slos"]:
            found += parse_slo(text)
    except TargetError as error:
        raise TargetError(f"--slo: {error}") from None
    waits = [(one.kind, one.quantile) for one in found if isinstance(one, Wait)]
    if len(set(waits)) < len(waits):
        raise TargetError("--slo: expected each percentile of a kind once")
    if given["batch_target"] is None:
        return [*found, KeepsUp()]
    try:
        start = _start(values.get("trace"), given["start"])
        return [*found, parse_batch(given["batch_target"], start)]
    except TargetError as error:
        raise TargetError(f"--batch: {error}") from None


def _start(trace: Any, clock: str | None) -> datetime | None:
    """Local time, without a zone, at which the load begins."""
    if trace is None:
        now = datetime.now()
        return now if clock is None else next_time(clock, now)
    if clock is not None:
        raise TargetError("--from is for stated loads: a trace says when it was")
    try:
        first = began_at(Path(trace))
    except (ValueError, OSError) as error:
        raise PlanError([str(error)]) from error
    return None if first is None or first < _SINCE_1970 else datetime.fromtimestamp(first)


def _with_batch(values: dict[str, Any], targets: Sequence[Target]) -> dict[str, Any]:
    """A rate that is asked for without a load of batch means batch that always waits."""
    batch = values.get("batch", {})
    if not isinstance(batch, dict) or values.get("trace") is not None:
        return values
    comes = {"rate", "at_start", "backlog", "tenants"} & batch.keys()
    if not comes and any(isinstance(one, Rate) for one in targets):
        return {**values, "batch": {**batch, "backlog": 100_000}}
    return values


def _check_load(plan: Plan, targets: Sequence[Target], margin: float) -> None:
    batch = plan.batch
    stated_load = batch.rate or batch.backlog or batch.at_start or plan.interactive.rate
    if plan.trace is not None and stated_load:
        raise PlanError(["trace: expected no other load beside it, got one"])
    if plan.trace is not None:
        return
    comes = batch.rate * batch.burst + sum(batch.tenants.values())
    for target in targets:
        if isinstance(target, Done) and not batch.at_start:
            raise PlanError(
                ["--batch: expected batch that can be done, got none: say how much there is with "
                 "--batch-at-start, or give a trace"]
            )  # fmt: skip
        if isinstance(target, Done) and batch.backlog:
            raise PlanError(["--batch: a backlog that always waits is never done; leave it out"])
        if isinstance(target, Rate) and not batch.backlog:
            least = target.per_second * (1 + margin)
            if comes < least:
                raise PlanError(
                    [f"--batch: expected {least * 3600:.4g} tasks an hour to come at least, which "
                     f"is what is asked for and the margin, got {comes * 3600:.4g}: leave "
                     "--batch-rate out to see what the slots could do"]
                )  # fmt: skip


def _load(
    plan: Plan, scenario: Scenario, targets: Sequence[Target], *, whole: bool
) -> tuple[Load, float]:
    if plan.trace is None:
        given = bool({"seconds"} & plan.model_fields_set)
        return stated(scenario, targets, is_given=given)
    arrivals = _arrivals(plan)
    for kind in (INTERACTIVE, BATCH):
        asked = any(isinstance(one, Wait) and one.kind == kind for one in targets)
        asked |= kind == BATCH and any(isinstance(one, (Rate, Done)) for one in targets)
        if asked and not any(one.kind == kind for one in arrivals):
            raise PlanError([f"{plan.trace}: expected {kind} tasks, got none"])
    whole = whole or bool({"seconds", "warmup"} & plan.model_fields_set)
    return recorded(replace(scenario, trace=None), arrivals, targets, whole=whole)


def _arrivals(plan: Plan) -> list[Arrival]:
    assert plan.trace is not None
    found: list[Arrival] = []
    for one in read_trace(plan.trace):
        if len(found) == MOST_ARRIVALS:
            raise PlanError(
                [f"{plan.trace}: expected {MOST_ARRIVALS} lines at the most, got more; cut the "
                 "hours out of it that matter"]
            )  # fmt: skip
        found.append(one)
    return found
