"""Watches a job until it ends: a bar in a terminal, else lines."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from celery_fair.cli.job_words import items, one_line, pace, state, warning
from celery_fair.cli.rows import sentence
from celery_fair.cli.top_facts import plain
from celery_fair.cli.words import count
from celery_fair.errors import StateAway
from celery_fair.jobs.progress import CANCELLED, ENDED, FINISHED, FINISHED_WITH_FAILURES, Progress

if TYPE_CHECKING:
    from celery_fair.jobs.job import Job

EXIT_CODES: Final[Mapping[str, int]] = {FINISHED: 0, FINISHED_WITH_FAILURES: 1, CANCELLED: 3}
"""Not 2, which is a command that was called in a wrong way."""
LIVE_SECONDS: Final = 1.0
LINE_SECONDS: Final = 10.0


def watch(
    console: Console, job: Job, progress: Progress, interval: float | None, *, as_json: bool
) -> Progress:
    """Show how it goes on; return how it ended."""
    live = console.is_terminal and not console.is_dumb_terminal and not as_json
    looks = _looks(job, progress, interval or (LIVE_SECONDS if live else LINE_SECONDS))
    if as_json:
        return _lines(looks, lambda text, one: click.echo(json.dumps(one.as_dict())))
    if not live:
        return _lines(looks, lambda text, one: sentence(console, text))
    last = _bar(console, looks)
    sentence(console, f"{last.task}: {one_line(last)}")
    return last


def _looks(job: Job, progress: Progress, interval: float) -> Iterator[tuple[Progress, str | None]]:
    """How far it is, look after look, and what is the matter; the last has ended."""
    yield progress, warning(progress)
    while progress.state not in ENDED:
        time.sleep(interval)
        try:
            progress = job.progress()
        except StateAway as error:
            yield progress, f"{error} Trying again."
        else:
            yield progress, warning(progress)


def _lines(looks: Iterator[tuple[Progress, str | None]], write: Any) -> Progress:
    last = ""
    for progress, matter in looks:
        text = one_line(progress) + (f"; {matter}" if matter else "")
        if text != last:
            write(text, progress)
        last = text
    return progress


def _bar(console: Console, looks: Iterator[tuple[Progress, str | None]]) -> Progress:
    """A bar that has no end while nobody knows how many items there will be."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[said]}", markup=False),
    )
    with Bar(*columns, console=console, auto_refresh=False, transient=True, expand=True) as bar:
        shown = bar.add_task("", said="")
        for progress, matter in looks:
            bar.update(shown, **_drawn(progress, matter), refresh=True)
    return progress


def _drawn(job: Progress, matter: str | None) -> dict[str, Any]:
    failed = [f"{count(job.failed)} failed"] if job.failed else []
    return {
        "description": plain(state(job)),
        "total": job.total or None,
        "completed": job.done + job.failed,
        # The line is cut at its end, and a pace is none while nothing is heard.
        "said": ", ".join([items(job), *failed, *([matter] if matter else pace(job))]),
    }
