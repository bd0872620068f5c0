"""The trade-off in a terminal: interactive waits upwards, batch to the right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from rich.console import Console

from celery_fair.advise.advice import Advice
from celery_fair.advise.targets import Wait
from celery_fair.advise.verdict import Verdict
from celery_fair.cli.rows import sentence
from celery_fair.cli.words import duration

WIDTH: Final = 60
HEIGHT: Final = 10
_LEAST_SECONDS: Final = 0.01
"""Waits below count as this: the scale goes by powers."""


def chart(console: Console, found: Advice) -> None:
    """Print it, with today's and the advice marked."""
    marked = list(_marked(found))
    target = next(one for one in found.targets if isinstance(one, Wait))
    heights = [_height(_wait(one)) for _, one in marked] + [_height(target.seconds)]
    low, high = min(heights), max(heights)
    most = max(one.batch_rate.mean for _, one in marked) or 1.0
    rows = [[" "] * (WIDTH + 1) for _ in range(HEIGHT + 1)]

    def row(height: float) -> int:
        return HEIGHT - round((height - low) / ((high - low) or 1) * HEIGHT)

    bound = row(_height(target.seconds))
    rows[bound] = ["-"] * (WIDTH + 1)
    for mark, one in marked:
        rows[row(_height(_wait(one)))][round(one.batch_rate.mean / most * WIDTH)] = mark
    sentence(console, f"{target.kind} p{target.quantile * 100:g} (up) and batch (right)", "dim")
    labels = {0: duration(math.exp(high)), HEIGHT: duration(math.exp(low))}
    labels[bound] = f"< {duration(target.seconds)}"
    for number, signs in enumerate(rows):
        line = f"{labels.get(number, ''):>9} |{''.join(signs)}".rstrip()
        console.print(line, highlight=False, markup=False)
    end = f"{most * 3600:.0f}/h"
    console.print(f"{'':>9} +0{end:>{WIDTH - 1}}", highlight=False, markup=False)
    sentence(console, _legend(found), "dim")


def _legend(found: Advice) -> str:
    text = "T today, A advice"
    if found.curve:
        text += f", o {found.curve[0].candidate.slots} slots by reserve"
    if found.curve_today:
        text += f", x today's {found.curve_today[0].candidate.slots}"
    return text + "; - what is asked for"


def _marked(found: Advice) -> Iterator[tuple[str, Verdict]]:
    yield from (("x", one) for one in found.curve_today)
    yield from (("o", one) for one in found.curve)
    if found.best is not None:
        yield "A", found.best
    if found.today is not None:
        yield "T", found.today


def _wait(one: Verdict) -> float:
    return next(part.value.mean for part in one.readings if isinstance(part.target, Wait))


def _height(seconds: float) -> float:
    return math.log(max(seconds, _LEAST_SECONDS))
