"""``fair record``: a day of all workers in a file, for ``fair simulate --trace``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CLIContext
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

from celery_fair.cli.failing import EX_IOERR, EX_USAGE, without_app
from celery_fair.cli.options import Numbers, json_option
from celery_fair.cli.remote import Unreachable, ask
from celery_fair.cli.words import count, duration, plural

if TYPE_CHECKING:
    from celery_fair.record.merging import Summary

ASK_SECONDS = 1.0


@click.command()
@click.option(
    "--to",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; gzipped if it ends in .gz.",
)
@click.option(
    "--seconds",
    type=Numbers(min=1, max=31 * 86_400),
    default=3600,
    show_default=True,
    help="How long; Ctrl-C ends it before, and writes what there is.",
)
@click.option(
    "--sample",
    type=Numbers(min=0.0001, max=1),
    default=1.0,
    show_default=True,
    help="The part of all tasks to record.",
)
@click.option(
    "--from",
    "places",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Ask nobody: read the folder (or file) that workers write by the setting record.",
)
@click.option(
    "--tenants",
    type=click.Choice(["numbered", "as-they-are", "none"]),
    default="numbered",
    show_default=True,
    help="What the file says of whose tasks they are.",
)
@json_option
@click.pass_obj
@without_app("places")
def record(
    obj: CLIContext,
    to: Path,
    seconds: float,
    sample: float,
    places: tuple[Path, ...],
    tenants: Any,
    as_json: bool,
) -> None:
    """Record when tasks come, wait and run, to replay it.

    All workers write what ends in them into the state's Redis while this command asks them to, and
    it makes one file of that. Neither arguments nor results are in it. docs/record.md has what is.

    Exit code: 0; 2 if the file can't be where it should; 69 if no worker records, or the broker or
    Redis can't be reached; 74 if the file can't be written.
    """
    if not to.absolute().parent.is_dir():
        raise CeleryCommandException(
            f"--to: expected a folder that exists, got {to.parent}", EX_USAGE
        )
    from celery_fair.record.merging import files_of, merge

    raw = to.with_name(to.name + ".raw.jsonl.gz")
    try:
        if not places:
            _gather(obj, raw, seconds, sample)
        summary = merge(files_of(places) if places else [raw], to, tenants)
        if not places:
            raw.unlink()
    except OSError as error:
        raise CeleryCommandException(f"--to: {error}", EX_IOERR) from error
    _tell(to, summary, as_json=as_json)


def _gather(obj: CLIContext, raw: Path, seconds: float, sample: float) -> None:
    from celery_fair.app import Fair
    from celery_fair.cli.exporter import Ended
    from celery_fair.record.gathering import Gathering
    from celery_fair.record.recording import ASKED_SECONDS
    from celery_fair.state import State

    def go_on(for_seconds: float) -> None:
        try:
            _ask(obj.app, for_seconds, sample)
        except Unreachable:  # workers that hear nothing for a minute stop; it asks again before
            return

    replies = _ask(obj.app, ASKED_SECONDS, sample)  # their first batch comes two seconds from now
    fair = Fair.of(obj.app)
    if fair is None:
        raise CeleryCommandException("No Fair(app) is installed in this app.", EX_UNAVAILABLE)
    state = State.of(fair, asks="fair record", without="nothing is read")
    gathering = Gathering(state, raw, go_on)
    gathering.begin()
    recording = [name for name, reply in replies.items() if "ok" in reply]
    for name, reply in sorted(replies.items()):
        if "ok" not in reply:
            click.echo(f"! {name} records nothing: {reply.get('error', reply)}", err=True)
    if not recording:
        raise CeleryCommandException(
            "No worker records: is one with celery-fair running, and is there a Redis for its "
            "state? Else set record to a folder, and use --from.",
            EX_UNAVAILABLE,
        )
    click.echo(
        f"{plural(len(recording), 'worker')} will be recorded for {duration(seconds)}; Ctrl-C "
        "writes what there is.",
        err=True,
    )
    try:
        ended = Ended()
        gathering.run(seconds, lambda: bool(ended))
    finally:
        state.close()


def _ask(app: Any, seconds: float, sample: float) -> dict[str, dict[str, Any]]:
    found = ask(
        app,
        "fair_record",
        timeout_seconds=ASK_SECONDS,
        arguments={"seconds": seconds, "sample": sample},
    )
    return {name: reply for name, reply in found.items() if isinstance(reply, dict)}


def _tell(to: Path, summary: Summary, *, as_json: bool) -> None:
    seconds = max(summary.until - summary.since, 0.0)
    if as_json:
        kinds = {
            kind: {
                "tasks": summary.tasks[kind],
                "run_seconds": round(summary.seconds[kind], 3),
                "wait_p50": _known(summary.waits[kind].quantile(0.5)),
                "wait_p95": _known(summary.waits[kind].quantile(0.95)),
            }
            for kind in summary.tasks
        }
        note = summary.note() if summary.workers else {}
        unreadable = summary.unreadable
        found = {"file": str(to), **note, "joined": summary.joined, "unreadable": unreadable}
        click.echo(json.dumps({**found, "kinds": kinds}))
        return
    total = sum(summary.tasks.values())
    who = plural(len(summary.workers), "worker")
    click.echo(f"{to}: {count(total)} tasks of {who} in {duration(seconds)}")
    for kind, number in summary.tasks.items():
        if number:
            p95 = duration(summary.waits[kind].quantile(0.95))
            mean = duration(summary.seconds[kind] / number)
            click.echo(f"  {kind:<11}  {count(number)}, wait p95 {p95}, run {mean} on the mean")
    for words in _notes(summary):
        click.echo(f"! {words}", err=True)


def _known(seconds: float) -> float | None:
    return round(seconds, 4) if seconds == seconds else None


def _notes(summary: Summary) -> list[str]:
    notes = []
    if summary.sample < 1:
        notes.append(f"A sample of {summary.sample:g}: a simulation makes up for the others.")
    if summary.lost:
        notes.append(f"{count(summary.lost)} more could not be recorded.")
    if summary.unreadable:
        notes.append(f"{count(summary.unreadable)} lines or batches could not be read.")
    if summary.waiting_at_start:
        notes.append(
            f"{count(summary.waiting_at_start)} were waiting when recording began, and come then."
        )
    return notes
