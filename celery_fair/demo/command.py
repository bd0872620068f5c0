"""``python -m celery_fair demo``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import celery
import click

import celery_fair
from celery_fair.demo.broker import DemoBroker
from celery_fair.demo.figures import Side
from celery_fair.demo.load import Load
from celery_fair.demo.processes import DemoError
from celery_fair.demo.run import CONTESTANTS, run

KEYS = dict(zip((each.name for each in CONTESTANTS), ("plain", "fair"), strict=True))
EX_INTERRUPTED = 130


@click.command()
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the same figures to FILE.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=3600),
    default=Load().seconds,
    show_default=True,
    help="How long each of the two runs is under load.",
)
def demo(json_path: Path | None, seconds: float) -> None:
    """Plain Celery against celery-fair, on this machine, in under a minute.

    Starts real worker processes on a broker of its own (redis-server if it is on the PATH, else
    fakeredis), floods them with batch tasks, sends interactive ones, and shows how long those
    waited. Nothing is left behind.
    """
    from rich.console import Console

    from celery_fair.demo.show import Screen, show_results

    console = Console(highlight=False)
    load = Load(seconds=seconds)
    screen = Screen(console, load)
    begin = time.monotonic()
    try:
        with screen.progress:
            broker, sides = run(load, screen)
    except DemoError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        click.echo("Interrupted; the demo's processes are stopped.", err=True)
        raise click.exceptions.Exit(EX_INTERRUPTED) from None
    show_results(console, sides)
    took = round(time.monotonic() - begin, 1)
    if json_path is not None:
        json_path.write_text(json.dumps(as_object(broker, load, sides, took), indent=2) + "\n")
    console.print(f"\nTook {took:.0f} s on {broker.name}.")


def as_object(
    broker: DemoBroker, load: Load, sides: Sequence[Side], took_seconds: float
) -> dict[str, Any]:
    """What ``--json`` writes; ``at_least`` marks figures that tasks not yet started could raise."""
    return {
        "broker": broker.name,
        "celery": celery.__version__,
        "celery_fair": celery_fair.__version__,
        "pool": "prefork",
        "load": load.as_dict(),
        "took_seconds": took_seconds,
        **{KEYS[side.name]: side.as_dict() for side in sides},
    }
