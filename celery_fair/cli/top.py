"""``celery -A proj fair top``: a live view of the workers in a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click
from celery.bin.base import CLIContext

from celery_fair.cli.options import ABOVE_0, Numbers
from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import ask, broker_url
from celery_fair.cli.status import console, fail_without_reports

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@click.option(
    "-i",
    "--interval",
    type=Numbers(min=0.1, max=86_400),
    default=1.0,
    show_default=True,
    help="Seconds from one frame to the next.",
)
@click.option(
    "-t",
    "--timeout",
    type=ABOVE_0,
    default=1.0,
    show_default=True,
    help="Seconds to wait for the workers' first answers.",
)
@click.pass_obj
def top(obj: CLIContext, once: bool, interval: float, timeout: float) -> None:
    """Watch slots, lanes, waits, gates and batch's share.

    q or Ctrl-C ends it. Where the output is no terminal, or one that can't move its cursor, one
    frame is printed as by --once.

    Exit code: of one frame as of `fair status`; live 0, or 69 if the broker can't be reached at the
    start.
    """
    answers = Answers.of(ask(obj.app, "fair_status", timeout_seconds=timeout))
    out = console(obj)
    if once or not sys.stdout.isatty() or out.is_dumb_terminal:
        _print_one(out, answers)
        fail_without_reports(obj.app, answers, timeout, None)
    else:
        from celery_fair.cli.top_screen import run

        run(obj.app, broker_url(obj.app), answers.reports, out, interval)


def _print_one(out: Console, answers: Answers) -> None:
    from celery_fair.cli.top_facts import plain
    from celery_fair.cli.top_view import Frame
    from celery_fair.cli.top_watch import still

    picture = still(answers.reports, time.time())
    picture.notes.extend(
        plain(f"{node} works without celery-fair: {why}.") for node, why in answers.silent.items()
    )
    out.print(Frame(picture))
