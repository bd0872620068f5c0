"""The options that say what load there is, and the plan that they and a file make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from celery_fair.cli.options import Numbers

F = TypeVar("F", bound=Callable[..., Any])

NUMBER: Final = Numbers(min=0, max=1e9)
PATH: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
KIND_OPTIONS: Final = ("rate", "burst", "run", "at_start", "backlog", "yields_every")
PLAIN_OPTIONS: Final = ("trace", "workers", "slots", "seconds", "warmup", "broker")

_OPTIONS: Final = (
    click.option("--interactive-rate", type=NUMBER, help="Interactive arrivals a second."),
    click.option("--interactive-burst", type=click.IntRange(1), help="Tasks at each of them."),
    click.option(
        "--interactive-run",
        metavar="SECONDS",
        help="How long they run: 0.05, 1-5, 'exp 2', or 'lognormal MEDIAN P95'.",
    ),
    click.option("--batch-rate", type=NUMBER, help="Batch arrivals a second."),
    click.option(
        "--batch-at-start", type=click.IntRange(0), help="Batch tasks that are there at once."
    ),
    click.option("--batch-backlog", type=click.IntRange(0), help="Batch tasks that always wait."),
    click.option("--batch-run", metavar="SECONDS", help="How long batch tasks run."),
    click.option(
        "--batch-yields-every",
        type=NUMBER,
        metavar="SECONDS",
        help="After so long each time batch can give its slot back.",
    ),
    click.option("--trace", type=PATH, help="Replay a recorded day: JSON lines, gzipped or not."),
    click.option("--workers", type=click.IntRange(1), help="How many.  [default: 1]"),
    click.option("--slots", type=click.IntRange(1), help="Of each of them.  [default: 8]"),
    click.option("--seconds", type=NUMBER, help="How long to measure.  [default: 600]"),
    click.option("--warmup", type=NUMBER, help="And how long before that.  [default: 60]"),
    click.option("--broker", type=click.Choice(["redis", "rabbitmq"]), help="[default: redis]"),
)


def load_options(command: F) -> F:
    """Those of a command that simulates a load."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def load_values(file: Path | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan's file says, with what options say put upon it."""
    from celery_fair.cli.simulate_plan import read_plan

    values = {} if file is None else read_plan(file)
    for kind in ("interactive", "batch"):
        told = {
            name: value
            for name in KIND_OPTIONS
            if (value := given.get(f"{kind}_{name}")) is not None
        }
        if told:
            values[kind] = {**said(values, kind, {}), **told}
    for name in PLAIN_OPTIONS:
        if given[name] is not None:
            values[name] = given[name]
    return values


def said(values: Mapping[str, Any], name: str, else_: Any) -> Any:
    """What the file says under this name, to which options add."""
    from celery_fair.cli.simulate_plan import PlanError

    found = values.get(name)
    if found is None:
        return else_
    if not isinstance(found, type(else_)):
        what = "a list" if isinstance(else_, list) else "a mapping"
        raise PlanError([f"{name}: expected {what}, got {found!r:.60}"])
    return found
