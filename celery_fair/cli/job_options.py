"""Arguments and options that the commands about jobs share."""

from __future__ import annotations

from collections.abc import Callable

import click

from celery_fair.cli.options import F, Numbers

job_argument = click.argument("id", metavar="ID")
reason_option = click.option("--reason", metavar="TEXT", help="Why; who asks is noted by itself.")
start_option = click.option(
    "--start",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many to leave out.",
)
failures_option = click.option(
    "--failures",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    help="How many failed items to show at most.",
)
interval_option = click.option(
    "-i",
    "--interval",
    type=Numbers(min=0.1, max=86_400),
    help="Seconds from one look to the next; 1, or 10 where the output is no terminal.",
)
items_option = click.option(
    "--items", is_flag=True, help="With the items and what the errors said."
)


def count_option(default: int, most: int) -> Callable[[F], F]:
    """How many to show; all of them are one answer of Redis, which it must be quick with."""
    return click.option(
        "--count",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        help="How many to show at most.",
    )
