"""``celery -A proj fair resources``: what all workers share, and who holds it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from celery.bin.base import CLIContext

from celery_fair.cli.options import json_option

if TYPE_CHECKING:
    from rich.console import Console

    from celery_fair.resources.store import Holder

SHOWN: Final = 10
"""Holders of a resource in the text, those that have held it for longest."""

LEASE: Final = re.compile(r"(?P<worker>.+?)/[0-9a-f]{8}/\d+/(?P<task>.*)", re.DOTALL)
"""As `celery_fair.worker.clearing.waiting` makes them."""


@click.command()
@json_option
@click.pass_obj
def resources(obj: CLIContext, as_json: bool) -> None:
    """Show limits and budgets of all workers, and who holds places.

    It is asked of the Redis that keeps it, and of no worker. A place has its task's id: `fair
    explain ID` tells more. Where no resource is set there is nothing to show.

    Exit code: 0; 69 if the Redis can't be asked, 78 if the app has none.
    """
    from celery_fair.cli.job_find import fair_of

    shared = fair_of(obj.app, "resources are shared out by celery-fair").resources
    found: list[dict[str, Any]] = []
    if shared.is_set:
        found = facts(shared.store.views(), shared.store.holders(), time.time())
    if as_json:
        click.echo(json.dumps({"resources": found}, indent=2))
        return
    from celery_fair.cli.status import console

    show(console(obj), found)


def facts(views: Sequence[Any], holders: Sequence[Holder], now: float) -> list[dict[str, Any]]:
    """What ``--json`` has of each resource; ``slowed_until`` and ``since`` are epoch seconds."""
    from celery_fair.observe.resources import view_facts

    return [
        {
            **view_facts(view),
            "slowed_until": round(now + view.slowed_seconds, 1) if view.slowed_seconds else None,
            "held": [_held(one, now) for one in holders if view.name in one.uses],
        }
        for view in views
    ]


def _held(one: Holder, now: float) -> dict[str, Any]:
    found = LEASE.fullmatch(one.lease)
    return {
        "worker": found["worker"] if found else one.worker,
        "task": found["task"] if found else None,
        "kind": one.kind,
        "since": round(now - one.seconds, 1),
        "seconds": round(one.seconds, 1),
    }


def show(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    """A line a resource, as `fair status` has it, and those who hold it below."""
    from celery_fair.cli.explain_words import safe
    from celery_fair.cli.rows import plain, sentence
    from celery_fair.cli.status_shared import resource_line
    from celery_fair.cli.words import duration

    if not found:
        sentence(console, "No resource is set, nor a limit of a kind: docs/resources.md has both.")
    for one in found:
        sentence(console, resource_line(one))
        for held in one["held"][:SHOWN]:
            task = safe(held["task"] or "a task")
            line = f"{safe(held['worker'])}  {held['kind']}  {duration(held['seconds'])}  {task}"
            plain(console, f"  {line}")
        more = sum(one["running"].values()) - min(len(one["held"]), SHOWN)
        if more > 0:
            plain(console, f"  and {more} more")
