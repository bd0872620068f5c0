"""``celery -A proj fair doctor``: findings, each with its cure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CLIContext

from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import NoRemoteControl, Unreachable, ask, broker_url
from celery_fair.cli.words import plural

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.doctor import Finding, Replies

SEVERITIES = ("error", "warning", "info")
NOT_CHECKED = "What workers consume, and with which settings, was not checked."
STYLES = {"error": "red", "warning": "yellow", "info": "blue"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object instead of text.")
@click.option("--no-broker", is_flag=True, help="Look at the app alone; ask no worker.")
@click.option(
    "-t",
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds to wait for the workers' answers.",
)
@click.pass_obj
def doctor(obj: CLIContext, as_json: bool, no_broker: bool, timeout: float) -> None:
    """Look for what is likely to go wrong; docs/doctor.md lists what can be found.

    Exit code: 0 if nothing was found, or only notes (info); 1 with a warning or an error.
    """
    from celery_fair.doctor import static_findings

    obj.app.loader.import_default_modules()  # as a worker does: the tasks are looked at too
    found = static_findings(obj.app)
    if not no_broker:
        found += _live(obj.app, timeout)
    found.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.id))
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in found]}, indent=2))
    else:
        _show(obj, found, live=not no_broker)
    if any(finding.severity != "info" for finding in found):
        raise click.exceptions.Exit(1)


def _live(app: Any, timeout_seconds: float) -> list[Finding]:
    """Ask the workers; what keeps them from being asked is itself a finding."""
    from celery_fair.doctor import live_findings
    from celery_fair.doctor.finding import NO_WORKER, UNREACHABLE

    fair = _active(app)
    if fair is None:
        return []
    try:
        replies = _ask_all(app, timeout_seconds)
        if replies is not None:
            return live_findings(fair, replies)
        return [
            NO_WORKER.finding(
                f"No worker answered within {timeout_seconds:g} s on {broker_url(app)}",
                NOT_CHECKED,
                "Start them and ask again; --timeout gives busy ones more time.",
            )
        ]
    except (Unreachable, NoRemoteControl) as error:
        return [
            UNREACHABLE.finding(
                error.message.rstrip("."),
                NOT_CHECKED,
                "Run this where the broker can be reached, or with --no-broker.",
            )
        ]


def _active(app: Any) -> Fair | None:
    """The app's Fair if it can work; if it can't, the static findings say why."""
    from celery_fair.app import Fair
    from celery_fair.errors import SettingsError

    fair = Fair.of(app)
    try:
        return fair if fair is not None and fair.settings.enabled and fair.queues else None
    except SettingsError:
        return None


def _ask_all(app: Any, timeout_seconds: float) -> Replies | None:
    """All that the live checks need to know; ``None`` if no worker answers."""
    from celery_fair.doctor import Replies

    answers = Answers.of(ask(app, "fair_status", timeout_seconds=timeout_seconds))
    number = len(answers.reports) + len(answers.silent)
    if not number:
        return None
    queues, stats = (
        ask(app, command, timeout_seconds=timeout_seconds, limit=number)
        for command in ("active_queues", "stats")
    )
    return Replies(
        answers.reports,
        {node: _names(reply) for node, reply in queues.items()},
        {node: reply for node, reply in stats.items() if isinstance(reply, dict)},
    )


def _names(reply: Any) -> frozenset[str]:
    """The names in a reply to ``active_queues``; a worker that failed to answer has none."""
    return frozenset(queue["name"] for queue in reply) if isinstance(reply, list) else frozenset()


def _show(obj: CLIContext, found: Sequence[Finding], *, live: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from celery_fair.cli.status import console

    out = console(obj)
    for finding in found:
        out.print(
            Text.assemble(
                (f"{finding.id} {finding.severity}", STYLES[finding.severity]), f"  {finding.what}"
            )
        )
        for name, text in (("why ", finding.why), ("cure", finding.cure)):
            out.print(
                Padding(Text.assemble((f"{name}  ", "dim"), text), (0, 0, 0, 5), expand=False)
            )
    counts = [
        plural(number, severity if severity != "info" else "note")
        for severity in SEVERITIES
        if (number := sum(finding.severity == severity for finding in found))
    ]
    where = "the app and its workers" if live else "the app alone"
    out.print(f"{', '.join(counts) or 'Nothing found'}; looked at {where}.")
