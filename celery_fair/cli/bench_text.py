"""The reports of `fair bench` as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from celery_fair.bench.comparing import Row, rows
from celery_fair.cli.rows import sentence
from celery_fair.cli.status_text import ROOM_FOR_QUANTILES
from celery_fair.cli.words import duration, percent, plural
from celery_fair.policy.kinds import KINDS

QUANTILES = ("p50", "p95", "p99", "max")


def show(console: Console, report: Mapping[str, Any]) -> None:
    """Print waits by kind, the use of the slots, and what deserves a word."""
    workers = report["workers"]
    parts = [
        f"{plural(len(workers[which]), 'worker')} {words}"
        for which, words in (("with_celery_fair", "with celery-fair"), ("plain", "of plain Celery"))
        if workers[which]
    ]
    what = "probes" if report["source"] == "probes" else "the record"
    head = f"{what} of {duration(report['seconds'])}   {' and '.join(parts)}, "
    sentence(console, head + plural(report["slots"], "slot"), "bold")
    console.print(_kinds(report, is_narrow=console.width < ROOM_FOR_QUANTILES))
    sentence(console, _use(report), "dim")
    for note in notes(report):
        sentence(console, f"! {note}", "yellow")


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", min_width=11, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _kinds(report: Mapping[str, Any], *, is_narrow: bool) -> Table:
    counts = ("sent", "ran") if report["source"] == "probes" else ("started",)
    quantiles = QUANTILES[:2] if is_narrow else QUANTILES
    table = _table(*counts, "wait p50", *quantiles[1:], *(() if is_narrow else ("slots used",)))
    for kind in KINDS:
        part, used = report["kinds"][kind], report["slots_in_use"][kind]
        waits = part["wait_seconds"]
        table.add_row(
            kind,
            *(str(part[name]) for name in counts),
            *(wait(waits[name], name in waits["at_least"]) for name in quantiles),
            *(() if is_narrow else ("–" if used is None else f"{used:.1f}",)),
        )
    return table


def wait(seconds: float | None, at_least: bool) -> str:
    """A wait, or the least that it was."""
    return f"{'≥ ' if at_least else ''}{duration(seconds)}"


def _use(report: Mapping[str, Any]) -> str:
    use = f"slots in use {percent(report['utilisation'])}"
    if report["sampled"]:
        use += f" (plain Celery: looked at {report['sampled']} times)"
    use += f"; batch's part of it {percent(report['batch_part'])}"
    finished = report["tasks_a_second"]
    return f"{use}; {'–' if finished is None else f'{finished:.1f}'} tasks a second"


def notes(report: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong in the picture, a sentence each."""
    if report["ended"] == "interrupted":
        yield "Interrupted: this is what there was until then."
    if report["ended"] == "broker lost":
        why = f" ({report['error'].rstrip('.')})" if report.get("error") else ""
        yield f"The broker was lost, or refuses{why}: this is what there was until then."
    for node in report["gone"]:
        yield f"{node} answered before and no more after."
    for kind, part in report["kinds"].items():
        if part.get("sent") and not part["ran"]:
            yield (
                f"None of the {kind} probes ran in time: does a worker consume {part['queue']}, "
                f"and how much waits there? `fair status` and `celery inspect active_queues` tell."
            )
        if part.get("refused"):
            yield f"{plural(part['refused'], 'probe')} of {kind} refused by admission (QueueFull)."


def show_both(console: Console, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Print two reports side by side, with what became of each figure."""
    table = _table("before", "after", "after/before")
    for row in rows(before, after):
        table.add_row(row.name, *_cells(row), "–" if row.ratio is None else f"{row.ratio:.3g}")
    console.print()
    console.print(table)


def _cells(row: Row) -> Iterator[str]:
    for value, at_least in zip((row.before, row.after), row.at_least, strict=True):
        if row.unit == "seconds":
            yield wait(value, at_least)
        elif row.unit == "ratio":
            yield percent(value)
        else:
            yield "–" if value is None else f"{value:.1f}"
