"""Options that commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from celery.bin.base import COMMA_SEPARATED_LIST

F = TypeVar("F", bound=Callable[..., Any])


class Numbers(click.FloatRange):
    """A range of numbers; "nan" is none, though no comparison finds it outside."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


ABOVE_0: Final = Numbers(min=0, min_open=True, max=86_400)
"""Seconds, of a day at the most: sockets and timers take no "inf"."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object instead of text."
)
timeout_option = click.option(
    "-t",
    "--timeout",
    type=ABOVE_0,
    default=1.0,
    show_default=True,
    help="Seconds to wait for answers.",
)
keep_option = click.option(
    "--keep", is_flag=True, help="Keep it over restarts of all workers, in the state's Redis."
)
destination_option = click.option(
    "-d",
    "--destination",
    type=COMMA_SEPARATED_LIST,
    help="Only these workers (comma-separated node names).",
)


def ordering_options(command: F) -> F:
    """Those of a command that changes something."""
    for option in (json_option, timeout_option, keep_option, destination_option):
        command = option(command)
    return command
