"""``fair drain``: have a worker end its work, and take no more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException

from celery_fair.cli.options import json_option, timeout_option

if TYPE_CHECKING:
    from celery_fair.cli.overview import Answers
    from celery_fair.steering.making import Wish

LOOK_SECONDS: Final = 1.0
GONE_LOOKS: Final = 5
"""Looks without an answer after which a worker is taken to be gone."""
EX_GONE: Final = 1


@click.command()
@click.argument("worker")
@click.option("--undo", is_flag=True, help="Have it take work again.")
@click.option("--wait", is_flag=True, help="Wait until nothing runs there any more.")
@json_option
@timeout_option
@click.pass_obj
def drain(
    obj: CLIContext, worker: str, undo: bool, wait: bool, timeout: float, as_json: bool
) -> None:
    """Have a worker take no more work.

    What it holds goes back to the broker, and what runs goes on. What waits there for its time or
    its rate goes back when that comes, or when the worker ends. It is meant for one process: the
    next of that name takes work again.

    Exit code: 0; 1 if it refuses, or doesn't answer any more; 69 if it doesn't answer at all or the
    broker can't be reached.
    """
    from celery_fair.cli.ordering import give
    from celery_fair.cli.ordering_text import tell
    from celery_fair.steering.making import draining

    def of_this_process(answers: Answers) -> Sequence[Wish]:
        return [draining(answers.reports[worker]["started_at"], on=not undo)]

    outcome = give(
        obj.app, [draining(0.0, on=not undo)],
        destination=[worker], timeout_seconds=timeout, check=of_this_process,
    )  # fmt: skip
    tell(obj, outcome, timeout, [worker], as_json=as_json)
    if wait and not undo:
        _wait(obj, worker, timeout, quiet=as_json)


def _wait(obj: CLIContext, worker: str, timeout: float, *, quiet: bool) -> None:
    from celery_fair.cli.ordering_text import words
    from celery_fair.cli.remote import ask
    from celery_fair.cli.rows import plain
    from celery_fair.cli.status import console
    from celery_fair.steering import DRAIN

    out, said, missed = console(obj), "", 0
    while missed < GONE_LOOKS:
        replies = ask(
            obj.app, "fair_order", timeout_seconds=timeout, destination=[worker],
            limit=1, arguments={"about": [DRAIN]},
        )  # fmt: skip
        state = replies.get(worker, {}).get("about", {}).get(DRAIN)
        missed = missed + 1 if state is None else 0
        if state is not None and words(state) != said and not quiet:
            said = words(state)
            plain(out, f"  {worker}  {said}")
        if isinstance(state, str):
            raise CeleryCommandException(f"{worker} is not drained any more.", EX_GONE)
        if isinstance(state, dict) and state["done"]:
            return
        time.sleep(LOOK_SECONDS)
    raise CeleryCommandException(
        f"{worker} doesn't answer any more: it has ended, or is cut off.",
        EX_GONE,
    )
