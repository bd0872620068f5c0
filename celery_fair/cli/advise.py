"""``fair advise``: how many slots, which reserve and share, for what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException

from celery_fair.cli.failing import EX_IOERR, EX_USAGE, without_app
from celery_fair.cli.options import Numbers
from celery_fair.cli.simulate_load import PATH, load_options
from celery_fair.cli.status import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from celery_fair.advise.advice import Advice
    from celery_fair.cli.advise_ask import Asked

SECONDS: Final = Numbers(min=0, min_open=True, max=86_400)


@click.command()
@click.argument("plan", required=False, type=PATH)
@click.option(
    "--slo",
    "slos",
    metavar="TARGET",
    multiple=True,
    help="As in 'interactive p95 < 2s'; several times, or with commas.",
)
@click.option(
    "--batch", "batch_target", metavar="TARGET", help="'done by 07:00', 'done in 6h' or '300/h'."
)
@click.option("--from", "start", metavar="HH:MM", help="When a stated load begins.  [default: now]")
@load_options
@click.option(
    "--slots-at-most", type=click.IntRange(1, 10_000), help="Of each worker.  [default: 4 x slots]"
)
@click.option(
    "--yields-at-least",
    type=SECONDS,
    default=1.0,
    show_default=True,
    help="The shortest piece that batch tasks could be split into.",
)
@click.option(
    "--margin",
    type=Numbers(min=0, max=0.9),
    default=0.15,
    show_default=True,
    help="How much better than asked for the simulated figures have to be.",
)
@click.option(
    "--most-seconds",
    type=SECONDS,
    help="How long a usual core may simulate.  [default: 20, up to 300 for a night]",
)
@click.option("--whole", is_flag=True, help="Of a long trace all, not the busiest part.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="A .png or .svg.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object instead of text.")
@click.pass_obj
@without_app()
def advise(obj: CLIContext, /, plan: Path | None, **given: Any) -> None:
    """Tell how many slots and which settings a target takes.

    The load is said as for `fair simulate`: by options, by PLAN, a YAML file, or by a trace. With
    -A the app's own settings are today's, else the defaults are; --slots are today's slots. A
    formula gives a first guess and the simulator the answer. docs/advise.md has what is tried, and
    how sure it is.

    Exit code: 0 if today's settings meet all targets; 1 if not; 2 for what can't be asked; 69 if a
    package is missing; 74 if the picture can't be written; 130 after Ctrl-C.
    """
    from celery_fair.advise.targets import TargetError
    from celery_fair.cli.advise_ask import ask
    from celery_fair.cli.simulate import check_plot
    from celery_fair.cli.simulate_plan import PlanError

    plot, as_json = given.pop("plot"), given.pop("as_json")
    try:
        check_plot(plot)
        asked = ask(obj.app, plan, given)
    except (PlanError, TargetError) as error:
        raise CeleryCommandException(str(error), EX_USAGE) from error
    progress = nullcontext(_nothing) if as_json else _progress(obj, asked.most_seconds)
    with progress as step:
        found = asked.advise(step)
    _tell(obj, asked, found, as_json=as_json)
    if plot is not None:
        _draw(found, plot)
    if found.today is None or not found.today.meets():
        raise click.exceptions.Exit(1)


def _tell(obj: CLIContext, asked: Asked, found: Advice, *, as_json: bool) -> None:
    from celery_fair.cli.advise_json import as_json as to_json
    from celery_fair.cli.advise_text import show

    if as_json:
        click.echo(json.dumps(to_json(found, asked.plan.model_dump(mode="json")), indent=2))
    else:
        show(console(obj), found, asked.head)


def _draw(found: Advice, plot: Path) -> None:
    from celery_fair.cli.advise_plot import draw

    try:
        draw(found, plot)
    except OSError as error:
        raise CeleryCommandException(f"--plot: {error}", EX_IOERR) from error


def _nothing(used: float) -> None:
    """Where nobody looks at a bar."""


@contextmanager
def _progress(obj: CLIContext, most_seconds: float) -> Iterator[Callable[[float], None]]:
    """On the terminal's standard error, and gone at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    on = Console(stderr=True, no_color=bool(obj.no_color) or None)
    columns = (TextColumn("simulating"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=on, transient=True, disable=not on.is_terminal) as bar:
        task = bar.add_task("", total=most_seconds)
        yield lambda used: bar.update(task, completed=used)
