"""Pages of a job's failures and results."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

import click
from celery.bin.base import CLIContext

from celery_fair.cli.job_find import fair_of, find
from celery_fair.cli.job_text import failure_lines
from celery_fair.cli.rows import sentence
from celery_fair.cli.status import console
from celery_fair.jobs.progress import Failure

DATA: Final = ("item", "message")
"""Of a failure, what is the user's own."""


def show_failures(
    obj: CLIContext, id: str, start: int, count: int, *, items: bool, as_json: bool
) -> None:
    """A line each."""
    job, progress = find(fair_of(obj.app), id)
    found = job.failures(start, count)
    if as_json:
        said = [_shown(one, items=items) for one in found]
        click.echo(_json({"failed": progress.failed, "failures": said}, indent=2))
        return
    out = console(obj)
    for one, line in zip(found, failure_lines(progress, found), strict=False):
        sentence(out, line + (f": {_json(one.item)}: {one.message}" if items else ""))
    if start + len(found) < progress.failed:
        sentence(out, f"More: --start {start + len(found)}")
    elif not found:
        sentence(out, "No item has failed." if not start else f"No more than {start} have failed.")


def _shown(failure: Failure, *, items: bool) -> dict[str, Any]:
    return {name: value for name, value in asdict(failure).items() if items or name not in DATA}


def write_results(obj: CLIContext, id: str, start: int, count: int) -> None:
    """A line of JSON each; why there is none is said beside them."""
    job, _ = find(fair_of(obj.app), id)
    found = job.results(start, count)
    for index, result in found.items():
        click.echo(_json({"index": index, "result": result}))
    if not found:
        click.echo(
            f"No result is kept of items {start} to {start + count - 1}: one that is not done has "
            "none, nor has any of a job that was submitted without results=True.",
            err=True,
        )


def _json(said: Any, indent: int | None = None) -> str:
    """Return JSON; what it has no type for, as a date, is in it as text."""
    return json.dumps(said, indent=indent, default=str)
