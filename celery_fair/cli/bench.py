"""``celery -A proj fair bench``: what tasks wait for in one's own deployment, before and after."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

from celery_fair.cli.bench_checks import (
    MOST_A_SECOND,
    check_broker,
    check_folder,
    check_number,
    check_probe_task,
    first_look,
    queues_of_kinds,
    save,
    saved,
)
from celery_fair.cli.failing import EX_INTERRUPTED
from celery_fair.cli.options import ABOVE_0, Numbers
from celery_fair.cli.remote import ask
from celery_fair.cli.status import console

if TYPE_CHECKING:
    from celery_fair.bench.probing import Plan
    from celery_fair.bench.run import Ask

EX_NONE_RAN: Final = 1
"""Probes of a kind were sent, and none ran."""
EXITS: Final = {"complete": 0, "interrupted": EX_INTERRUPTED, "broker lost": EX_UNAVAILABLE}


@click.command()
@click.option("--seconds", type=ABOVE_0, default=30.0, show_default=True, help="How long to send.")
@click.option(
    "--rate",
    type=ABOVE_0,
    default=1.0,
    show_default=True,
    help=f"Probes of each kind a second; more than {MOST_A_SECOND:g} need --test-broker.",
)
@click.option(
    "--most", type=click.IntRange(1), default=300, show_default=True, help="Probes of each kind."
)
@click.option(
    "--patience",
    type=ABOVE_0,
    default=10.0,
    show_default=True,
    help="Seconds to wait for the last probes; those that wait then are let expire.",
)
@click.option(
    "--run-seconds",
    type=Numbers(0, 60),
    default=0.0,
    show_default=True,
    help="How long each probe holds its slot; workers then need -I celery_fair.probe.",
)
@click.option(
    "--queue",
    "queues",
    metavar="KIND=QUEUE",
    multiple=True,
    callback=queues_of_kinds,
    help="Where probes of a kind go, else where the app sends tasks of that kind.",
)
@click.option("--record", is_flag=True, help="Send nothing: read what the workers have counted.")
@click.option(
    "--flood",
    type=click.IntRange(0),
    default=0,
    help="Batch tasks to send at the start, to see the difference; needs --test-broker, and "
    "-I celery_fair.probe at the workers.",
)
@click.option(
    "--flood-seconds",
    type=Numbers(0, 60),
    default=0.5,
    show_default=True,
    help="How long each of those runs.",
)
@click.option("--test-broker", metavar="HOST", help="The broker's host, typed in full.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the report.")
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show a saved report beside this one.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object instead of text.")
@click.option(
    "-t", "--timeout", type=ABOVE_0, default=1.0, show_default=True, help="Seconds for answers."
)
@click.pass_obj
def bench(obj: CLIContext, /, **given: Any) -> None:
    """Measure waits, shares and the use of slots.

    Sends probes of both kinds, which do nothing, and tells how long they waited: for a slot, and on
    the way to the broker and back. Workers need no celery-fair for it, so that there is a before.
    Ctrl-C ends it with what there is until then; what still waits then isn't run. docs/bench.md
    tells how to read it.

    Exit code: 0; 1 if no probe of a kind ran; 69 if no worker answers, or the broker is lost on the
    way (what was measured until then is told); 130 after Ctrl-C.
    """
    before = saved(given["compare"])
    check_folder(given["save"])
    check_number(given)
    check_broker(obj.app, given)
    asking: Ask = functools.partial(_ask, obj.app, given["timeout"])
    report = _record(obj.app, asking, given) if given["record"] else _probe(obj.app, asking, given)
    _show(obj, report, before, as_json=given["as_json"])
    if given["save"] is not None:
        save(given["save"], report)
    _exit(report)


def _ask(app: Any, timeout_seconds: float, command: str, **options: Any) -> Mapping[str, Any]:
    return ask(app, command, timeout_seconds=timeout_seconds, **options)


def _record(app: Any, asking: Ask, given: Mapping[str, Any]) -> dict[str, Any]:
    from celery_fair.bench.report import of_record
    from celery_fair.bench.run import look

    before = first_look(app, asking, given)
    if not before.reports:
        raise CeleryCommandException(
            "No worker runs celery-fair, and plain ones keep no record: leave --record out.",
            EX_UNAVAILABLE,
        )
    ended = "complete"
    try:
        time.sleep(given["seconds"])
    except KeyboardInterrupt:
        ended = "interrupted"
    return {
        **of_record(before, look(asking, len(before.reports) + len(before.stats))),
        "ended": ended,
    }


def _probe(app: Any, asking: Ask, given: Mapping[str, Any]) -> dict[str, Any]:
    from celery_fair.bench.report import of_probes
    from celery_fair.bench.run import Bench

    plan = _plan(given)
    before = first_look(app, asking, given)
    if plan.needs_probe_task:
        check_probe_task(asking, before)
    run = Bench(app, plan, asking, before)
    run.run()
    return of_probes(run)


def _plan(given: Mapping[str, Any]) -> Plan:
    from celery_fair.bench.probing import Plan

    return Plan(
        seconds=given["seconds"],
        patience_seconds=given["patience"],
        rate=given["rate"],
        most=given["most"],
        run_seconds=given["run_seconds"],
        flood=given["flood"],
        flood_seconds=given["flood_seconds"],
        queues=given["queues"],
    )


def _show(
    obj: CLIContext, report: Mapping[str, Any], before: Mapping[str, Any] | None, *, as_json: bool
) -> None:
    if as_json:
        click.echo(json.dumps(report if before is None else _both(before, report), indent=2))
        return
    from celery_fair.cli.bench_text import show, show_both

    show(console(obj), report)
    if before is not None:
        show_both(console(obj), before, report)


def _both(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    from celery_fair.bench.comparing import rows

    ratios = {row.name: row.ratio for row in rows(before, after)}
    return {"before": before, "after": after, "ratios": ratios}


def _exit(report: Mapping[str, Any]) -> None:
    code = EXITS[report["ended"]]
    kinds: Sequence[Mapping[str, Any]] = tuple(report["kinds"].values())
    if not code and any(kind.get("sent") and not kind["ran"] for kind in kinds):
        code = EX_NONE_RAN
    if code:
        raise click.exceptions.Exit(code)
