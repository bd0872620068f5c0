"""``fair explain --kind`` and ``--worker`` as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console

from celery_fair.cli.explain_text import MOST_WAITS, starts
from celery_fair.cli.explain_words import SHORT, clock, names, safe, taken
from celery_fair.cli.explained_kind import KindExplanation
from celery_fair.cli.explained_waits import reason_in
from celery_fair.cli.rows import head, rows_of
from celery_fair.cli.words import ago, count, duration, gate_reason
from celery_fair.policy.kinds import KINDS

CHANGES: Final = 5
"""Of a worker's gate that are shown."""


def show_kind(console: Console, found: KindExplanation, now: float) -> None:
    """How much of a kind waits where, and why."""
    ready = "an unknown number" if found.ready is None else count(found.ready)
    said = f"{found.kind}: {count(found.waiting)} wait ({ready} at the broker, {found.held} held)"
    head(console, f"{said}, {found.running} run")
    rows = [("why", wait.text) for wait in found.waits[:MOST_WAITS]] or [("why", "nothing waits")]
    if found.oldest_ready_at is not None:
        rows.append(("oldest", f"was ready {ago(found.oldest_ready_at, now)}"))
    if found.scheduled or found.rate_limited:
        rows.append(
            ("later", f"{found.scheduled} for their time, {found.rate_limited} for their rate")
        )
    if found.uncleared:
        rows.append(("held", f"{found.uncleared} for a place, a budget or the hook"))
    rows.append(("starts", f"one published now {starts(found.estimate, found.no_estimate)}"))
    for node, (at, mode, _, reason) in found.changes:
        rows.append(("gates", f"{clock(at, now)} {mode} on {safe(node)}: {reason}"))
    if found.plain:
        rows.append(("note", f"without celery-fair, and so not told of: {names(found.plain)}"))
    rows_of(console, rows)


def show_worker(console: Console, node: str, report: Mapping[str, Any], now: float) -> None:
    """Both kinds of one worker, and what it has decided of late."""
    gate = report["gate"]
    said = f"{safe(node)}   gate {gate['mode']} for {duration(now - gate['since'])}"
    head(console, f"{said} ({gate_reason(gate)})")
    rows = [("slots", taken(report))]
    for kind in KINDS:
        part, reason = report["kinds"][kind], reason_in(report, kind)
        why = "nothing waits" if reason is None else SHORT[reason]
        since = "" if part["since"] is None else f", for {duration(now - part['since'])}"
        backlog = count(part["backlog"])
        rows.append((kind, f"{backlog} wait, {part['held']} of them held: {why}{since}"))
    for at, mode, _, reason in report.get("changes", ())[-CHANGES:]:
        rows.append(("gate", f"{clock(at, now)} {mode}: {reason}"))
    for one in report.get("recent", ()):
        rows.append(("recent", _line(one, now)))
    record = report["record"]
    rows.append(("record", f"{record['tasks']} tasks, {record['tasks_forgotten']} forgotten"))
    rows_of(console, rows)


def _line(one: Mapping[str, Any], now: float) -> str:
    waited = "" if one["wait_seconds"] is None else f", waited {duration(one['wait_seconds'])}"
    ran = "" if one["run_seconds"] is None else f", ran {duration(one['run_seconds'])}"
    return (
        f"{clock(one['at'], now)} {safe(one['task'])}[{safe(one['id'], 8)}] {one['outcome']}"
        f"{waited}{ran}"
    )
