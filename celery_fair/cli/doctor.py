"""``celery -A proj fair doctor``: findings, each with its cure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from celery.bin.base import CLIContext
from click.shell_completion import CompletionItem

from celery_fair.cli.failing import without_app
from celery_fair.cli.options import json_option, timeout_option
from celery_fair.cli.words import plural

if TYPE_CHECKING:
    from rich.console import Console

    from celery_fair.doctor import Finding, Rule

STYLES = {"error": "red", "warning": "yellow", "info": "blue"}
FAIL_ON = ("error", "warning", "info", "never")


def _known(_: click.Context, __: click.Parameter, ids: Sequence[str]) -> list[str]:
    """Ids of rules, in capitals; ``--ignore F001,F011`` is two of them."""
    from celery_fair.doctor import RULES
    from celery_fair.errors import did_you_mean

    known = {rule.id: rule for rule in RULES}
    found = [id.strip().upper() for listed in ids for id in listed.split(",") if id.strip()]
    for id in found:
        if id not in known:
            hint = did_you_mean(id, map(str.lower, known))
            raise click.BadParameter(f"there is no finding {id!r}{hint}; --list has them all")
    return found


def _ids(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from celery_fair.doctor import RULES

    begun = incomplete.upper()
    return [CompletionItem(one.id, help=one.title) for one in RULES if one.id.startswith(begun)]


@click.command()
@click.argument("rules", metavar="[ID]...", nargs=-1, callback=_known, shell_complete=_ids)
@json_option
@click.option("--no-broker", is_flag=True, help="Look at the app alone; ask no worker.")
@click.option(
    "--list", "listing", is_flag=True, help="List all that can be found, and look at nothing."
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="ID",
    callback=_known,
    shell_complete=_ids,
    help="Leave out what has this id; may be given several times, or as ID,ID.",
)
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="warning",
    show_default=True,
    help="The mildest finding that makes the exit code 1.",
)
@timeout_option
@click.pass_obj
@without_app("rules", "listing")
def doctor(
    obj: CLIContext,
    rules: Sequence[str],
    as_json: bool,
    no_broker: bool,
    listing: bool,
    ignore: Sequence[str],
    fail_on: str,
    timeout: float,
) -> None:
    """Look for what is likely to go wrong, and how to cure it.

    docs/doctor.md lists what can be found. With an ID, as in F103, it says what that finding means,
    and looks at nothing.

    Exit code: 0 if nothing was found, or only notes (info); 1 with a warning or an error.
    """
    if rules or listing:
        _explain(obj, rules, as_json=as_json)
        return
    from celery_fair.doctor import SEVERITIES, app_findings

    found = app_findings(obj.app)
    if not no_broker:
        from celery_fair.cli.doctor_replies import cluster_findings

        found += cluster_findings(obj.app, timeout)
    found = [finding for finding in found if finding.id not in ignore]
    found.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.id))
    if as_json:
        click.echo(json.dumps({"findings": [asdict(finding) for finding in found]}, indent=2))
    else:
        _show(obj, found, live=not no_broker)
    failing = SEVERITIES[: FAIL_ON.index(fail_on) + 1] if fail_on != "never" else ()
    if any(finding.severity in failing for finding in found):
        raise click.exceptions.Exit(1)


def _explain(obj: CLIContext, ids: Sequence[str], *, as_json: bool) -> None:
    """What some rules, or all, look for."""
    from celery_fair.doctor import RULES

    shown = [rule for rule in RULES if not ids or rule.id in ids]
    if as_json:
        click.echo(json.dumps({"rules": [asdict(rule) for rule in shown]}, indent=2))
        return
    from celery_fair.cli.status import console

    out = console(obj)
    for rule in shown:
        _entry(out, rule, rule.title, (rule.why, rule.cure) if ids else None)


def _show(obj: CLIContext, found: Sequence[Finding], *, live: bool) -> None:
    from celery_fair.cli.rows import sentence
    from celery_fair.cli.status import console
    from celery_fair.doctor import SEVERITIES

    out = console(obj)
    for finding in found:
        _entry(out, finding, finding.what, (finding.why, finding.cure))
    counts = [
        plural(number, severity if severity != "info" else "note")
        for severity in SEVERITIES
        if (number := sum(finding.severity == severity for finding in found))
    ]
    where = "the app and its workers" if live else "the app alone"
    sentence(out, f"{', '.join(counts) or 'Nothing found'}; looked at {where}.")


def _entry(out: Console, about: Finding | Rule, text: str, reasons: tuple[str, str] | None) -> None:
    """A finding or a rule: one line, and under it why and the cure."""
    from rich.text import Text

    from celery_fair.cli.rows import rows_of, sentence

    head = (f"{about.id} {about.severity}", STYLES[about.severity])
    sentence(out, Text.assemble(head, f"  {text}"))
    if reasons is not None:
        rows_of(out, list(zip(("why", "cure"), reasons, strict=True)), indent=5)
