"""What `fair bench` must know before it sends anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from celery.exceptions import CeleryCommandException
from celery.platforms import EX_UNAVAILABLE

from celery_fair.cli.failing import EX_IOERR
from celery_fair.cli.remote import broker_url, connection_to_broker
from celery_fair.policy.kinds import KINDS

if TYPE_CHECKING:
    from celery_fair.bench.recording import Look
    from celery_fair.bench.run import Ask

MOST_A_SECOND: Final = 5.0
"""Probes of each kind a second that any broker bears beside its own work."""

MOST_SLOTS: Final = 1.0
"""Of each kind, that probes may hold on the mean where others work."""


def queues_of_kinds(_: click.Context, __: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """By kind, of ``KIND=QUEUE``."""
    queues: dict[str, str] = {}
    for each in given:
        kind, _equals, queue = each.partition("=")
        if kind not in KINDS or not queue:
            raise click.BadParameter(f"expected interactive=QUEUE or batch=QUEUE, got {each!r}.")
        queues[kind] = queue
    return queues


def first_look(app: Any, asking: Ask, given: Mapping[str, Any]) -> Look:
    from celery_fair.bench.run import look

    before = look(asking)
    if not before.reports and not before.stats:
        raise CeleryCommandException(
            f"No worker answered within {given['timeout']:g} s on {broker_url(app)}: is one "
            f"running, on this broker? --timeout gives busy ones more time.",
            EX_UNAVAILABLE,
        )
    return before


def check_broker(app: Any, given: Mapping[str, Any]) -> None:
    """Whatever may harm a broker that others work on, or its workers, must name it."""
    what = _harm(given)
    if what is None:
        return
    host = connection_to_broker(app).hostname or "localhost"
    if given["test_broker"] != host:
        raise click.UsageError(
            f"{what} {broker_url(app)}: if that is a test broker, say so with --test-broker {host}."
        )


def _harm(given: Mapping[str, Any]) -> str | None:
    if given["flood"]:
        return "--flood fills the batch queue of"
    if given["rate"] > MOST_A_SECOND:
        return "So high a --rate loads"
    slots = given["rate"] * given["run_seconds"]
    if slots > MOST_SLOTS:
        return f"At this --rate, probes of --run-seconds take {slots:.2g} slots of each kind on"
    return None


def check_number(given: Mapping[str, Any]) -> None:
    """A run in which nothing is sent would look like one in which nothing waits."""
    if given["seconds"] * given["rate"] < 1 and not given["record"]:
        raise click.UsageError(
            f"--seconds {given['seconds']:g} at --rate {given['rate']:g} is less than one probe: "
            f"raise one of them."
        )


def check_probe_task(asking: Ask, before: Look) -> None:
    from celery_fair.probe import NAME

    nodes = [*before.reports, *before.stats]
    registered = asking("registered", destination=nodes, limit=len(nodes))
    lacking = sorted(
        node
        for node, tasks in registered.items()
        if not any(str(task).split(" ")[0] == NAME for task in tasks)
    )
    if lacking:
        raise CeleryCommandException(
            f"{', '.join(lacking)} can't run {NAME}, which holds a slot for a given time: start "
            f"workers with -I {NAME} (plain Celery will do), or have it in `imports`.",
            EX_UNAVAILABLE,
        )


def check_folder(path: Path | None) -> None:
    """What was measured for minutes should find its place."""
    if path is not None and not path.parent.is_dir():
        raise click.UsageError(f"--save {path}: there is no folder {path.parent}: make it first.")


def save(path: Path, report: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CeleryCommandException(
            f"The report can't be saved: {error}; what is shown above is all of it.", EX_IOERR
        ) from error


def saved(path: Path | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    from celery_fair.bench.comparing import NotAReport, checked

    try:
        return checked(json.loads(path.read_text(encoding="utf-8")))
    except (NotAReport, ValueError) as error:
        raise click.UsageError(f"{path} can't be compared with: {error}.") from None
