"""The demo on the terminal: progress, a table, a small chart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from celery_fair.cli.words import duration
from celery_fair.demo.broker import DemoBroker
from celery_fair.demo.figures import Side, Wait, quantile
from celery_fair.demo.load import Load
from celery_fair.demo.run import CONTESTANTS, Watcher

BAR_WIDTH = 40
EIGHTHS = " ▏▎▍▌▋▊▉"
STYLES = dict(zip((each.name for each in CONTESTANTS), ("yellow", "green"), strict=True))


def wait_text(wait: Wait | None) -> str:
    if wait is None:
        return "–"
    return ("≥ " if wait.at_least else "") + duration(wait.seconds)


class Screen(Watcher):
    """One progress bar a side, with its figures so far."""

    def __init__(self, console: Console, load: Load) -> None:
        self._load = load
        self._console = console
        self.progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[said]}"),
            console=console,
        )
        self._bars: dict[str, TaskID] = {}

    def broker_started(self, broker: DemoBroker) -> None:
        low, high = self._load.batch_run_seconds
        load = self._load
        self._console.print(
            f"Broker: {broker.name}. Each side: one worker of {load.slots} processes with Celery's "
            f"own defaults; plain Celery has one queue, as it comes. Both get the same: batch "
            f"tasks of {low:g}–{high:g} s, {load.batch_at_once} at once and then as many as the "
            f"worker can do, and {load.interactive_each_second:g} interactive tasks a second of "
            f"{duration(load.interactive_run_seconds)}.\n"
        )

    def side_starts(self, name: str) -> None:
        self._bars[name] = self.progress.add_task(
            name, total=self._load.seconds, said="starting its worker"
        )

    def side_goes_on(self, side: Side, elapsed_seconds: float) -> None:
        p50 = quantile(side.interactive_waits(time.time()), 0.5)
        self.progress.update(
            self._bars[side.name],
            completed=min(elapsed_seconds, self._load.seconds),
            said=f"started {len(side.waits)} of {len(side.sent_at)}, half within "
            f"{wait_text(p50)}; batch {side.batch_done}",
        )


def show_results(console: Console, sides: Sequence[Side]) -> None:
    """Print the table, the chart and, if needed, what the ≥ means."""
    console.print()
    console.print(_table(sides))
    _chart(
        console, "interactive wait, p95", sides, lambda side: side.wait_figures()["p95"], wait_text
    )
    _chart(
        console,
        f"batch tasks done in {sides[0].seconds:g} s",
        sides,
        lambda side: Wait(side.batch_done),
        lambda done: f"{done.seconds:g}" if done else "–",
    )
    console.print(
        "\nThe price: celery-fair keeps a slot free for the next interactive task, and batch gets "
        "the rest."
    )
    for side in (side for side in sides if not side.all_started):
        waiting = len(side.sent_at) - len(side.waits)
        console.print(
            f"≥: on {side.name} {waiting} of {len(side.sent_at)} interactive tasks had not started "
            f"when the run ended; each counts with what it had waited by then."
        )


def _table(sides: Sequence[Side]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    table.add_column("")
    for side in sides:
        table.add_column(side.name, justify="right", header_style=STYLES[side.name])
    for name in ("p50", "p95", "max"):
        waits = (wait_text(side.wait_figures()[name]) for side in sides)
        table.add_row(f"interactive wait, {name}", *waits)
    started = (f"{len(side.waits)} of {len(side.sent_at)}" for side in sides)
    table.add_row("interactive started", *started)
    table.add_row("batch done", *(str(side.batch_done) for side in sides))
    return table


def _chart(
    console: Console,
    title: str,
    sides: Sequence[Side],
    figure: Callable[[Side], Wait | None],
    say: Callable[[Wait | None], str],
) -> None:
    figures = [figure(side) for side in sides]
    longest = max((wait.seconds for wait in figures if wait), default=0.0)
    console.print(f"\n{title}", style="bold")
    for side, wait in zip(sides, figures, strict=True):
        part = wait.seconds / longest if wait and longest else 0.0
        console.print(Text(f"  {side.name:<14}").append(bar(part), STYLES[side.name]), end=" ")
        console.print(say(wait))


def bar(part: float) -> str:
    """A bar of that part of the full width, to an eighth of a character; never quite nothing."""
    eighths = max(round(part * BAR_WIDTH * 8), 1)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
