"""``fair simulate``: what another setting, load or number of workers would come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException

from celery_fair.cli.failing import EX_IOERR, EX_USAGE, without_app
from celery_fair.cli.simulate_load import PATH, load_options, load_values, said
from celery_fair.cli.status import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery_fair.cli.simulate_plan import Plan
    from celery_fair.cli.simulate_setups import Case
    from celery_fair.sim.experiment import Outcome, Trial


@click.command()
@click.argument("plan", required=False, type=PATH)
@load_options
@click.option(
    "--try",
    "tries",
    metavar="NAME=VALUE,…",
    multiple=True,
    help="Settings to put beside today's; may be given several times.",
)
@click.option(
    "--plain",
    metavar="SETUP",
    multiple=True,
    help="Celery without celery-fair: fifo, strict-late, reserved-slot-late, …; several times.",
)
@click.option("--seeds", type=click.IntRange(1, 1000), help="Runs of each.  [default: 3]")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="A .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object instead of text.")
@click.pass_obj
@without_app()
def simulate(obj: CLIContext, /, plan: Path | None, **given: Any) -> None:
    """Tell what settings would come to, in virtual time.

    PLAN is a YAML file with the load, the workers and the settings to compare; options come before
    what it says. With -A the app's own settings are the base, else the defaults are. The same
    policy decides as in a worker, and no broker is asked. docs/simulator.md has the plan's names,
    and how far to trust the figures.

    Exit code: 0; 2 for a plan that can't be simulated; 69 if a package for it is missing; 74 if the
    picture can't be written; 130 after Ctrl-C.
    """
    from celery_fair.cli.simulate_plan import PlanError

    plot = given.pop("plot")
    as_json = given.pop("as_json")
    try:
        check_plot(plot)
        made = _plan(plan, given)
        cases = _cases(obj.app, made)
        progress = _quiet() if as_json else _progress(obj, len(cases) * made.seeds)
        with progress as step:
            outcomes = _run(made, cases, step)
    except PlanError as error:
        raise CeleryCommandException(str(error), EX_USAGE) from error
    _tell(obj, made, cases, outcomes, as_json=as_json)
    if plot is not None:
        from celery_fair.cli.simulate_plot import draw

        first = cases[0].scenario
        try:
            draw(outcomes, first.workers * first.slots, first.duration, _head(made, cases), plot)
        except OSError as error:
            raise CeleryCommandException(f"--plot: {error}", EX_IOERR) from error


def check_plot(plot: Path | None) -> None:
    """Before anything runs for minutes: whether the picture can be made, and written."""
    if plot is None:
        return
    from celery_fair.cli.simulate_plan import PlanError
    from celery_fair.cli.simulate_plot import FORMATS, pyplot

    if plot.suffix not in FORMATS:
        ends = " or ".join(FORMATS)
        raise PlanError([f"--plot: expected a file that ends in {ends}, got {plot}"])
    if not plot.absolute().parent.is_dir():
        raise PlanError([f"--plot: expected a folder that exists, got {plot.parent}"])
    pyplot()


def _plan(file: Path | None, given: Mapping[str, Any]) -> Plan:
    from celery_fair.cli.simulate_plan import make_plan

    values = load_values(file, given)
    if given["seeds"] is not None:
        values["seeds"] = given["seeds"]
    if given["plain"]:
        values["plain"] = [*said(values, "plain", []), *given["plain"]]
    if given["tries"]:
        values["settings"] = {**said(values, "settings", {"fair": {}}), **_tries(given["tries"])}
    return make_plan(values)


def _tries(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    from celery_fair.cli.simulate_plan import PlanError
    from celery_fair.errors import did_you_mean
    from celery_fair.settings import FairSettings, parsed

    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        found[text] = {}
        for part in text.split(","):
            name, equals, value = part.partition("=")
            name = name.strip().lower()
            if not equals or not value.strip():
                raise PlanError([f"--try: expected NAME=VALUE, got {part!r}"])
            if name not in FairSettings.model_fields:
                hint = did_you_mean(name, FairSettings.model_fields)
                raise PlanError([f"--try: there is no setting {name!r}{hint}"])
            found[text][name] = parsed(name, value.strip())
    return found


def _cases(app: Any, plan: Plan) -> list[Case]:
    from celery_fair.app import Fair
    from celery_fair.cli.simulate_setups import cases
    from celery_fair.settings import FairSettings

    fair = Fair.of(app)
    return cases(plan, FairSettings() if fair is None else fair.settings)


def _run(plan: Plan, cases: Sequence[Case], step: Callable[[float], None]) -> list[Outcome]:
    from celery_fair.sim.experiment import outcome, simulate

    found: list[Outcome] = []
    seeds = range(plan.seed, plan.seed + plan.seeds)
    for case in cases:
        trials: list[Trial] = []
        for seed in seeds:
            done = len(found) * len(seeds) + len(trials)
            trials.append(simulate(case.scenario, case.setup, seed, _after(done, step)))
        found.append(outcome(case.setup.name, trials))
    return found


def _after(done: int, step: Callable[[float], None]) -> Callable[[float], None]:
    return lambda part: step(done + part)


def _tell(
    obj: CLIContext, plan: Plan, cases: Sequence[Case], outcomes: Sequence[Outcome],
    *, as_json: bool,
) -> None:  # fmt: skip
    from celery_fair.cli.simulate_text import as_json as to_json
    from celery_fair.cli.simulate_text import show

    first = cases[0].scenario
    if as_json:
        click.echo(json.dumps(to_json(outcomes, plan.model_dump(mode="json")), indent=2))
    else:
        slots = first.workers * first.slots
        endless = plan.batch.backlog > 0
        show(console(obj), outcomes, slots, _head(plan, cases), endless=endless)


def _head(plan: Plan, cases: Sequence[Case]) -> str:
    from celery_fair.cli.words import duration, plural

    first = cases[0].scenario
    what = f"{plan.trace.name}, " if plan.trace is not None else ""
    return (
        f"{what}{plural(first.workers, 'worker')} of {plural(first.slots, 'slot')}, "
        f"{duration(first.duration)} after {duration(first.warmup)}, {plural(plan.seeds, 'seed')}"
    )


def _quiet() -> AbstractContextManager[Callable[[float], None]]:
    return nullcontext(lambda part: None)


@contextmanager
def _progress(obj: CLIContext, runs: int) -> Iterator[Callable[[float], None]]:
    """On the terminal's standard error, and gone at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    on = Console(stderr=True, no_color=bool(obj.no_color) or None)
    columns = (TextColumn("simulating"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=on, transient=True, disable=not on.is_terminal) as bar:
        task = bar.add_task("", total=runs)
        yield lambda part: bar.update(task, completed=part)
