"""Makes scenarios and set-ups of a plan: each of its settings has one of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from celery_fair.cli.simulate_plan import (
    MOST_SECONDS,
    KindPlan,
    Plan,
    PlanError,
    settings_problems,
)
from celery_fair.errors import SettingsError
from celery_fair.policy import BATCH, KINDS, Kind, PolicySettings
from celery_fair.policy.tenant_rules import TenantRules
from celery_fair.policy.yields import YieldRules
from celery_fair.resources.rules import rules_of
from celery_fair.settings import FairSettings
from celery_fair.sim import PLAIN, Arrivals, FairSetup, Scenario, Work
from celery_fair.sim.setups import Setup
from celery_fair.sim.trace import TraceError, read_trace
from celery_fair.worker.fleet import Fleet

SIMULATED: Final = frozenset(PolicySettings.__dataclass_fields__) & set(
    FairSettings.model_fields
) | {
    "sensor_interval_seconds", "hold_max_seconds", "yield_min_seconds", "yield_max_overhead",
    "interactive_shards", "batch_shards", "tenant_weights", "tenant_max_running", "resources",
    "interactive_max_running", "batch_max_running", "tenant_turns", "waiting_room",
}  # fmt: skip
"""The settings that a simulation acts on; any other is refused, as it would change nothing."""


class Case(NamedTuple):
    """One thing to simulate."""

    setup: Setup
    scenario: Scenario
    says: str


def cases(plan: Plan, today: FairSettings) -> list[Case]:
    """All that a plan compares; ``today`` is what its settings are put upon.

    Raises `PlanError` for settings, or a trace, that can't be used.
    """
    base = _scenario(plan)
    found = [_fair(name, values, plan, base, today) for name, values in plan.settings.items()]
    return found + [Case(PLAIN[name], base, PLAIN[name].says) for name in plan.plain]


def _fair(
    name: str, values: Mapping[str, Any], plan: Plan, base: Scenario, today: FairSettings
) -> Case:
    try:
        settings = today.replaced(values)
    except SettingsError as error:
        raise PlanError(settings_problems(name, error)) from error
    ignored = sorted(set(values) - SIMULATED)
    if ignored:
        raise PlanError(
            [f"settings.{name}.{one}: expected a setting that a simulation acts on, and this is "
             f"none; there are {', '.join(sorted(SIMULATED))}" for one in ignored]
        )  # fmt: skip
    policy = settings.policy(plan.prefetch)
    try:
        policy.check(plan.slots * plan.workers)
    except ValueError as error:
        raise PlanError([f"settings.{name}: {error}"]) from error
    scenario = replace(
        base,
        sensor_seconds=settings.sensor_interval_seconds,
        hold_max_seconds=settings.hold_max_seconds,
        shards=max(settings.interactive_shards, settings.batch_shards),
        resources=tuple(rules_of(settings).values()),
        tenants=_tenants(settings) or base.tenants,
        tenant_turns=settings.tenant_turns,
        waiting_room=settings.waiting_room,
        yields=YieldRules(settings.yield_min_seconds, settings.yield_max_overhead),
    )
    said = ", ".join(f"{key}={value}" for key, value in values.items())
    return Case(FairSetup(policy, name), scenario, said or "celery-fair, settings as they are")


def _tenants(settings: FairSettings) -> TenantRules | None:
    if not settings.tenant_weights and settings.tenant_max_running is None:
        return None
    return TenantRules(settings.tenant_weights, settings.tenant_max_running)


def _scenario(plan: Plan) -> Scenario:
    works = {kind: _work(kind, getattr(plan, kind)) for kind in KINDS}
    several = plan.workers > 1
    scenario = Scenario(
        "plan",
        works["interactive"],
        works["batch"],
        workers=plan.workers,
        slots=plan.slots,
        warmup=plan.warmup,
        duration=plan.seconds,
        grace=plan.grace,
        round_trip_seconds=plan.round_trip,
        start_seconds=plan.start_seconds,
        poll_seconds=1.0 if plan.broker == "redis" else 0.0,
        pushes=plan.broker == "rabbitmq",
        fleet_delay_seconds=Fleet("").say_seconds_of(plan.workers) if several else None,
    )
    return scenario if plan.trace is None else _recorded(plan, scenario)


def _recorded(plan: Plan, scenario: Scenario) -> Scenario:
    """Look through the whole trace once: a bad line is told before anything is simulated."""
    assert plan.trace is not None
    last, have_tenants = None, False
    try:
        for last in read_trace(plan.trace):
            have_tenants = have_tenants or last.tenant is not None
    except (TraceError, OSError) as error:
        raise PlanError([str(error)]) from error
    if last is None:
        raise PlanError([f"{plan.trace}: expected arrivals, got an empty file"])
    if last.at > MOST_SECONDS:
        raise PlanError(
            [f"{plan.trace}: expected {MOST_SECONDS:g} s at most, got {last.at:g} from the first "
             "line to the last"]
        )  # fmt: skip
    warmup = plan.warmup if "warmup" in plan.model_fields_set else 0.0
    seconds = plan.seconds if "seconds" in plan.model_fields_set else last.at - warmup + 1e-3
    if seconds <= 0:
        raise PlanError(
            [f"warmup: expected less than the {last.at:g} s of the trace, got {warmup:g}"]
        )
    trace = partial(read_trace, plan.trace)
    tenants = TenantRules() if have_tenants else None
    return replace(scenario, warmup=warmup, duration=seconds, trace=trace, tenants=tenants)


def _work(kind: Kind, part: KindPlan) -> Work:
    return Work(
        part.run.draw,
        tuple(_arrivals(part)),
        part.backlog if kind == BATCH else 0,
        tuple(part.uses),
        part.yields_every,
    )


def _arrivals(part: KindPlan) -> Iterator[Arrivals]:
    random = part.gaps == "random"
    if part.rate:
        yield Arrivals(part.rate, part.burst, random)
    for tenant, rate in part.tenants.items():
        if rate > 0:
            yield Arrivals(rate, part.burst, random, tenant=tenant)
    if part.at_start:
        yield Arrivals(0.0, part.at_start)
