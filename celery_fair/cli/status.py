"""``celery -A proj fair status``: what each worker does for which kind, and all together."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

from celery_fair.cli.options import destination_option, json_option, timeout_option
from celery_fair.cli.overview import Answers, total
from celery_fair.cli.remote import ask, broker_url

if TYPE_CHECKING:
    from rich.console import Console

    from celery_fair.observe.counterfactual import Counterfactual

EX_NOT_INSTALLED = 1
"""Workers answer, but none of them runs celery-fair."""


@click.command()
@json_option
@timeout_option
@destination_option
@click.option(
    "--replay",
    "most_tasks",
    type=click.IntRange(0, 1_000_000),
    default=50_000,
    show_default=True,
    help="Of workers that observe: replay so many tasks at the most; 0 is none.",
)
@click.pass_obj
def status(
    obj: CLIContext,
    as_json: bool,
    timeout: float,
    destination: Sequence[str] | None,
    most_tasks: int,
) -> None:
    """Show gate, slots, backlog, waits and share of the workers.

    Each worker has a block; where there are several, their total follows. Where all observe, what
    they have run is replayed, which takes some seconds, and it is said how long tasks would have
    waited with celery-fair.

    Exit code: 0; 1 if workers answer but none runs celery-fair; 69 if no worker answers or the
    broker can't be reached.
    """
    answers = Answers.of(
        ask(obj.app, "fair_status", timeout_seconds=timeout, destination=destination)
    )
    found = _replayed(obj.app, answers, 0 if destination else most_tasks, timeout)
    if as_json:
        click.echo(json.dumps(as_object(answers, found), indent=2))
    else:
        from celery_fair.cli.status_text import show, show_replay

        out = console(obj)
        show(out, answers, _configured_queues(obj.app), time.time())
        if found is not None:
            show_replay(out, found)
    fail_without_reports(obj.app, answers, timeout, destination)


def _replayed(app: Any, answers: Answers, most_tasks: int, timeout: float) -> Counterfactual | None:
    if not most_tasks or all(one.get("mode") != "observe" for one in answers.reports.values()):
        return None
    from celery_fair.cli.status_replay import replayed

    return replayed(app, answers, most_tasks, timeout)


def as_object(answers: Answers, replayed: Counterfactual | None = None) -> dict[str, Any]:
    """What ``--json`` writes; ``total`` has the shape of one worker's report."""
    return {
        **({} if replayed is None else {"replay": replayed.report()}),
        "workers": answers.reports,
        "without_celery_fair": answers.silent,
        "total": total(answers.reports),
    }


def console(obj: CLIContext) -> Console:
    from rich.console import Console

    return Console(no_color=bool(obj.no_color) or None, highlight=False, soft_wrap=False)


def _configured_queues(app: Any) -> Mapping[Any, tuple[str, ...]]:
    """The queues of each kind that publishers with this configuration use."""
    from celery_fair.app import Fair

    fair = Fair.of(app)
    return fair.queues if fair is not None and fair.settings.enabled else {}


def fail_without_reports(
    app: Any, answers: Answers, timeout: float, destination: Sequence[str] | None
) -> None:
    if answers.reports:
        return
    if answers.silent:
        raise CeleryCommandException(
            "No worker that answered runs celery-fair: call Fair(app) where their app is made, "
            "check that `enabled` is not false, and restart them.",
            EX_NOT_INSTALLED,
        )
    who = f"None of {', '.join(destination)}" if destination else "No worker"
    raise CeleryCommandException(
        f"{who} answered within {timeout:g} s on {broker_url(app)}: is one running, on this "
        f"broker? One of the solo pool answers only between two tasks; --timeout gives it time.",
        EX_UNAVAILABLE,
    )
