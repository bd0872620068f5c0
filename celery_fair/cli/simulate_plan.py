"""What is to be simulated, as a file or the command line says it; each typo is refused by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from celery_fair.errors import SettingsError, did_you_mean
from celery_fair.sim import PLAIN, constant, empirical, exponential, lognormal, uniform
from celery_fair.sim.task import Draw

MOST_SECONDS: Final = 1e7
"""Sixteen weeks: of each of the times that are simulated."""
MOST_TASKS: Final = 100_000_000
"""At once: they take 16 bytes each."""
EXPECTED_RUN: Final = (
    "seconds (2), a span (1.5-2.5), 'exp MEAN', 'lognormal MEDIAN P95', or a list of seconds"
)


class PlanError(ValueError):
    """A plan can't be simulated: one sentence for each thing that is wrong in it."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class RunTime:
    """How long tasks run, in the words of the plan, and a function that draws it."""

    def __init__(self, said: Any) -> None:
        self.said = said
        try:
            self.draw = _draw(said)
        except (TypeError, ValueError):
            raise ValueError(f"expected {EXPECTED_RUN}") from None


def _draw(said: Any) -> Draw:
    if isinstance(said, bool):
        raise TypeError
    if isinstance(said, list):
        return empirical([_seconds(value) for value in said] or _nothing())
    try:
        return constant(_seconds(said))
    except ValueError:
        if not isinstance(said, str):
            raise
    words = said.replace("-", " ").split() if said[:1].isdigit() else said.split()
    if words[:1] == ["exp"] and len(words) == 2:
        return exponential(_seconds(words[1]))
    if words[:1] == ["lognormal"]:
        return lognormal(*_rising(words[1:], least=1e-9))
    return uniform(*_rising(words))


def _nothing() -> list[float]:
    raise ValueError


def _rising(words: Sequence[str], least: float = 0.0) -> tuple[float, float]:
    low, high = map(_seconds, words)
    if not least <= low <= high:
        raise ValueError
    return low, high


def _seconds(value: Any) -> float:
    number = float(value)
    if not 0 <= number < 1e9:
        raise ValueError
    return number


Run = Annotated[
    Any,
    BeforeValidator(lambda said: said if isinstance(said, RunTime) else RunTime(said)),
    PlainSerializer(lambda run: run.said),
]


def _as_they_are() -> dict[str, dict[str, Any]]:
    return {"fair": {}}


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class KindPlan(_Part):
    """The load of one kind."""

    run: Run = Field(default_factory=lambda: RunTime(1.0))
    rate: float = Field(default=0.0, ge=0, description="arrivals a second, from 0")
    burst: int = Field(
        default=1, ge=1, le=MOST_TASKS, description=f"tasks at each arrival, from 1 to {MOST_TASKS}"
    )
    gaps: Literal["random", "fixed"] = "random"
    at_start: int = Field(
        default=0, ge=0, le=MOST_TASKS, description=f"tasks there at once, from 0 to {MOST_TASKS}"
    )
    backlog: int = Field(
        default=0, ge=0, le=MOST_TASKS, description=f"tasks that always wait, 0 to {MOST_TASKS}"
    )
    tenants: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="rates by tenant, each from 0"
    )
    uses: list[str] = Field(default_factory=list, description="names of resources")
    yields_every: float = Field(default=0.0, ge=0, description="seconds, 0 for never")


class Plan(_Part):
    """A load, workers, and the settings to compare. Times are seconds."""

    workers: int = Field(default=1, ge=1, le=10_000, description="a number from 1 to 10000")
    slots: int = Field(default=8, ge=1, le=10_000, description="a number from 1 to 10000")
    seconds: float = Field(
        default=600.0, gt=0, le=MOST_SECONDS, description=f"seconds above 0, up to {MOST_SECONDS:g}"
    )
    warmup: float = Field(
        default=60.0, ge=0, le=MOST_SECONDS, description=f"seconds from 0 to {MOST_SECONDS:g}"
    )
    grace: float = Field(
        default=30.0, ge=0, le=MOST_SECONDS, description=f"seconds from 0 to {MOST_SECONDS:g}"
    )
    broker: Literal["redis", "rabbitmq"] = "redis"
    round_trip: float = Field(
        default=0.001, ge=1e-6, lt=60, description="seconds from 0.000001, below 60"
    )
    start_seconds: float = Field(default=0.002, ge=0, lt=60, description="seconds from 0")
    prefetch: int = Field(default=4, ge=0, description="worker_prefetch_multiplier, from 0")
    interactive: KindPlan = Field(default_factory=KindPlan)
    batch: KindPlan = Field(default_factory=KindPlan)
    settings: dict[str, dict[str, Any]] = Field(default_factory=_as_they_are)
    plain: list[str] = Field(default_factory=list, description="names of plain set-ups")
    seeds: int = Field(default=3, ge=1, le=1000, description="a number from 1 to 1000")
    seed: int = 1
    trace: Path | None = Field(default=None, strict=False, description="a file")


def read_plan(path: Path) -> dict[str, Any]:
    """Return what a YAML (or JSON) file says; raise `PlanError` if it isn't a mapping."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, OSError) as error:
        said = " ".join(str(error).split())
        raise PlanError([f"{path}: expected YAML, got what is none: {said}"]) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise PlanError([f"{path}: expected a mapping of names to values, got {found!r:.60}"])
    if isinstance(found.get("trace"), str):  # beside the file that names it
        found["trace"] = path.parent / found["trace"]
    return found


def make_plan(values: Mapping[str, Any]) -> Plan:
    """Check all of a plan at once; raise `PlanError` with a sentence for each problem."""
    try:
        plan = Plan.model_validate(dict(values))
    except ValidationError as error:
        raise PlanError(list(_sentences(error))) from None
    problems = list(_more_problems(plan))
    if problems:
        raise PlanError(problems)
    return plan


def _more_problems(plan: Plan) -> Iterator[str]:
    for name in plan.plain:
        if name not in PLAIN:
            yield f"plain: there is no set-up {name!r}{_or_all(name, PLAIN)}"
        elif plan.slots < 2 and PLAIN[name].batch_part is not None:
            yield f"plain: {name} divides the slots of a worker, expected slots above 1, got 1"
    for name in plan.settings:
        if not name.strip() or not name.isprintable():
            yield f"settings: expected names that can be printed, got {name!r:.60}"
    both = set(plan.plain) & set(plan.settings)
    for name in sorted(both):
        yield f"settings.{name}: expected a name that no plain set-up has, got one; take another"
    if not plan.settings and not plan.plain:
        yield "settings: expected at least one, or a plain set-up, got none"
    if plan.interactive.backlog:
        yield "interactive.backlog: expected 0, as only batch can always wait; give a rate"
    parts = (plan.interactive, plan.batch)
    if plan.trace is None and not any(_any_load(part) for part in parts):
        yield (
            "interactive, batch: expected a load of one kind at least, got none: give a rate, "
            "at_start, backlog, or a trace"
        )


def _any_load(part: KindPlan) -> bool:
    return bool(part.rate or part.at_start or part.backlog or any(part.tenants.values()))


def _sentences(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        place = [str(part) for part in detail["loc"]]
        yield f"{'.'.join(place)}: {_what(detail, place)}"


def _what(detail: Any, place: list[str]) -> str:
    model: type[BaseModel] = KindPlan if place[0] in ("interactive", "batch") else Plan
    field = place[-1] if model is Plan else (place[1] if len(place) > 1 else "")
    if detail["type"] == "extra_forbidden":
        return f"there is no such name{_or_all(place[-1], model.model_fields)}"
    got = f"got {detail['input']!r:.80}"
    known = model.model_fields.get(place[0] if model is Plan else field)
    if detail["type"] == "value_error":
        return f"{detail['ctx']['error']}, {got}"
    if known is not None and known.description:
        return f"expected {known.description}, {got}"
    return f"{detail['msg'].replace('Input should be', 'expected')}, {got}"


def _or_all(name: str, known: Any) -> str:
    return did_you_mean(name, known) or f"; there are {', '.join(known)}"


def settings_problems(name: str, error: SettingsError) -> list[str]:
    """What is wrong with one of the settings to compare."""
    return [f"settings.{name}.{problem}" for problem in error.problems]
