"""Advice as text: what today comes to, what to change, what binds, and the trade-off as a chart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from celery_fair.advise.advice import Advice
from celery_fair.advise.measure import Candidate
from celery_fair.advise.targets import Done, Rate, Target, Wait
from celery_fair.advise.verdict import Reading, Verdict, missed_by
from celery_fair.cli.advise_chart import chart
from celery_fair.cli.rows import sentence
from celery_fair.cli.words import duration, plural
from celery_fair.sim.experiment import Band

STYLES: Final = {"met": "green", "close": "yellow", "missed": "red"}


def show(console: Console, found: Advice, head: str) -> None:
    """Print all of it."""
    sentence(console, head, "bold")
    if found.today is not None:
        _verdict(console, "today", found.today, _each(found))
    if found.best is not None and found.best.candidate != _candidate(found.today):
        _verdict(console, "advice", found.best, _each(found))
    for text in _answer(found):
        sentence(console, text)
    for line in _lines(found):
        console.print(f"  {line}", highlight=False, markup=False)
    if found.curve:
        chart(console, found)


def _candidate(found: Verdict | None) -> Candidate | None:
    return None if found is None else found.candidate


def _verdict(console: Console, label: str, found: Verdict, each: str) -> None:
    sentence(console, f"{label}: {said(found.candidate, each)}; {plural(found.seeds, 'seed')}")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for one in found.readings:
        table.add_row(
            "", one.target.name, _value(one), Text(_state(one), style=STYLES[one.state])
        )  # fmt: skip
    console.print(table)


def said(candidate: Candidate, each: str = "") -> str:
    """Slots and settings, as one would say them."""
    settings = candidate.settings
    text = f"{plural(candidate.slots, 'slot')}{each}, reserve={settings.reserve}"
    text += f", batch_share={settings.batch_share:g}"
    if candidate.yields_every:
        text += f", batch yields every {duration(candidate.yields_every)}"
    return text


def _value(one: Reading) -> str:
    return figure(one.target, one.value)


def figure(target: Target, band: Band) -> str:
    """The figure of a target, in its unit."""
    spread = "" if math.isnan(band.spread) else " ± "
    if isinstance(target, Rate):
        unit = target.said.rpartition("/")[2].strip() if "/" in target.said else "h"
        times = {"s": 1, "min": 60, "h": 3600, "d": 86_400}[unit]
        spread += _number(band.spread * times) if spread else ""
        return f"{_number(band.mean * times)}{spread} /{unit}"
    if isinstance(target, (Wait, Done)):
        if math.isinf(band.mean):
            return "never"
        return f"{duration(band.mean)}{spread}" + (duration(band.spread) if spread else "")
    return f"{band.mean:.0%}{spread}" + (f"{band.spread:.0%}" if spread else "") + " started"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _state(one: Reading) -> str:
    by = missed_by(one.target, one.value.mean)
    if one.state == "met":
        return "met"
    if one.state == "close":
        return "not surely met"
    if by > 10 or math.isinf(by):
        return "missed by far"
    return f"missed by {(by - 1 if isinstance(one.target, (Wait, Done)) else 1 - 1 / by):.0%}"


def _answer(found: Advice) -> Iterator[str]:
    needs = found.needs
    yield from _first(found)
    yield (
        f"Batch needs {needs.batch:.1f} slots by itself and interactive {needs.interactive:.1f}, "
        f"{needs.interactive_for_wait} for its waits (Erlang C): a first guess of "
        f"{plural(needs.guess, 'slot')}{_each(found)}."
    )
    near = found.nearest
    if near is not None:
        worst = max(near.readings, key=_how_bad)
        yield (
            f"With {plural(near.candidate.slots, 'slot')}{_each(found)} the nearest is "
            f"reserve={near.candidate.settings.reserve}, batch_share="
            f"{near.candidate.settings.batch_share:g}: {worst.target.name} comes to "
            f"{_value(worst)}, {_state(worst)}."
        )
    if found.with_more is not None:
        yield f"More slots would do: {said(found.with_more.candidate, _each(found))}."
    if found.with_pieces is not None:
        pieces = said(found.with_pieces.candidate, _each(found))
        yield f"Batch that yields would do with fewer: {pieces}."
    if found.unsure:
        more = "nothing was found yet" if found.best is None else "fewer slots may do"
        yield (
            f"! Cut short after {plural(found.runs, 'run')}: {more}. --most-seconds gives it more "
            "time."
        )


def _how_bad(one: Reading) -> tuple[bool, float]:
    return one.state != "met", missed_by(one.target, one.value.mean)


def _first(found: Advice) -> Iterator[str]:
    best, today = found.best, found.today
    if best is None:
        if not found.unsure:
            yield f"Nothing up to {plural(found.most_slots, 'slot')}{_each(found)} meets this."
    elif today is not None and best.candidate == today.candidate:
        yield "Today's settings meet this" + ("." if found.unsure else ", and fewer slots don't.")
    elif today is not None and today.meets():
        yield f"Today's settings meet this; {said(best.candidate, _each(found))} would, too."
    else:
        yield f"Take {said(best.candidate, _each(found))}."


def _each(found: Advice) -> str:
    return "" if found.workers == 1 else f" a worker, of {found.workers}"


def _lines(found: Advice) -> Iterator[str]:
    """To be pasted."""
    best, today = found.best, found.today
    if best is None or today is None or best.candidate == today.candidate:
        return
    before, after = today.candidate.settings, best.candidate.settings
    values = {
        name: getattr(after, name)
        for name in ("reserve", "batch_share")
        if getattr(after, name) != getattr(before, name)
    }
    if values:
        yield f"app.conf.fair = {values}  # with what it has"
    if best.candidate.slots != today.candidate.slots:
        yield f"celery -A proj worker --concurrency {best.candidate.slots}"
