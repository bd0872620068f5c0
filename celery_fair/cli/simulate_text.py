"""What a simulation came to, as text, with a chart of who had the slots, or as JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from celery_fair.cli.rows import sentence
from celery_fair.cli.words import duration, percent, plural
from celery_fair.policy import BATCH, INTERACTIVE, KINDS
from celery_fair.sim.experiment import Band, Outcome

BAR: Final = 20
NAME: Final = 24
"""Columns of each: with both, and slots over time, a line fits into 80."""
WIDE: Final = 110
COLOURS: Final = {INTERACTIVE: "cyan", BATCH: "yellow"}
MARKS: Final = {INTERACTIVE: "█", BATCH: "▒"}
LEVELS: Final = "▁▂▃▄▅▆▇█"


def show(
    console: Console, outcomes: Sequence[Outcome], slots: int, head: str, *, endless: bool = False
) -> None:
    """Print a table, who had the slots, and their use over time.

    ``endless``: some batch always waits, so that what never started is nothing to tell.
    """
    sentence(console, head, "bold")
    console.print(_table(outcomes, is_wide=console.width >= WIDE))
    width = min(max(len(one.name) for one in outcomes), NAME)
    for one in outcomes:
        console.print(_bar(one, width).append("  ").append(_timeline(one, slots)))
    legend = "█ interactive  ▒ batch  · idle; and how many of the slots were in use over time"
    sentence(console, legend, "dim")
    for one in outcomes:
        for note in _notes(one, endless=endless):
            sentence(console, f"! {one.name}: {note}", "yellow")
    _show_tenants(console, outcomes)


def as_json(outcomes: Sequence[Outcome], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that is known; what can't be told is null."""
    return {"plan": plan, "outcomes": [_clean(asdict(one)) for one in outcomes]}


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    if isinstance(value, dict):
        return {key: _clean(one) for key, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _table(outcomes: Sequence[Outcome], *, is_wide: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("interactive wait", no_wrap=True, max_width=NAME)
    more = ("max", "batch wait p50", "p95") if is_wide else ()
    for heading in ("p50", "p95", *more, "batch/s", "share", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in outcomes:
        interactive, batch = one.of[INTERACTIVE], one.of[BATCH]
        table.add_row(
            Text(one.name),
            _seconds(interactive.pooled["p50"]),
            _wait(interactive.pooled["p95"], interactive.waits["p95"]),
            *((_seconds(interactive.pooled["max"]),) if is_wide else ()),
            *((_seconds(batch.pooled["p50"]), _seconds(batch.pooled["p95"])) if is_wide else ()),
            _number(batch.rate),
            percent(batch.share.mean),
            percent(one.utilisation.mean),
        )
    return table


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else duration(value)


def _wait(pooled: float, band: Band) -> str:
    text = _seconds(pooled)
    return text if math.isnan(band.spread) else f"{text} ± {duration(band.spread)}"


def _number(band: Band) -> str:
    if math.isnan(band.mean):
        return "–"
    text = f"{band.mean:.3g}"
    return text if math.isnan(band.spread) else f"{text} ± {band.spread:.2g}"


def _bar(one: Outcome, width: int) -> Text:
    name = one.name if len(one.name) <= width else f"{one.name[: width - 1]}…"
    text = Text(f"{name:<{width}}  ")
    left = BAR
    for kind in KINDS:
        part = min(round(one.of[kind].share.mean * BAR), left)
        text.append(MARKS[kind] * part, style=COLOURS[kind])
        left -= part
    return text.append("·" * left, style="dim")


def _timeline(one: Outcome, slots: int) -> Text:
    text = Text()
    parts = [one.busy[kind] for kind in KINDS]
    for index in range(0, len(parts[0]) - 1, 2):
        interactive, batch = (sum(part[index : index + 2]) / 2 for part in parts)
        level = min(max((interactive + batch) / slots, 0.0), 1.0)
        colour = COLOURS[BATCH if batch > interactive else INTERACTIVE]
        text.append(LEVELS[round(level * (len(LEVELS) - 1))], style=colour)
    return text


def _notes(one: Outcome, *, endless: bool) -> list[str]:
    return [
        f"{plural(number, f'{kind} task')} never started while observed, and counted as waiting "
        "until the end"
        for kind in KINDS
        if (number := one.of[kind].never_started) and not (endless and kind == BATCH)
    ]


def _show_tenants(console: Console, outcomes: Sequence[Outcome]) -> None:
    for one in outcomes:
        for kind in KINDS:
            tenants = {name: waits for name, waits in one.of[kind].tenants.items() if name}
            shown = sorted(tenants, key=lambda name: -tenants[name]["p95"])[:10]
            for name in shown:
                waits = tenants[name]
                sentence(
                    console,
                    f"{one.name}, {kind}, tenant {name}: wait p50 {_seconds(waits['p50'])}, "
                    f"p95 {_seconds(waits['p95'])}",
                    "dim",
                )
