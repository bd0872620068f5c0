"""``fair status`` as text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import celery_fair
from celery_fair.cli.overview import Answers, total
from celery_fair.cli.rows import sentence
from celery_fair.cli.status_shared import (
    clearing_lines,
    engine_lines,
    recording_lines,
    resource_lines,
)
from celery_fair.cli.words import ago, count, duration, gate_reason, percent, plural
from celery_fair.observe.steering import stops
from celery_fair.policy.kinds import KINDS

if TYPE_CHECKING:
    from celery_fair.observe.counterfactual import Counterfactual

WINDOW = "waits: last 5 min"
ROOM_FOR_QUANTILES = 66
"""Columns of a terminal under which one figure of the waits must do."""
GATE_STYLES = {"open": "green", "protected": "yellow"}


def show(
    console: Console, answers: Answers, configured: Mapping[str, Sequence[str]], now: float
) -> None:
    """Print a block a worker, their total, and what deserves a word of warning."""
    for node, report in answers.reports.items():
        _worker(console, node, report, now)
    everything = total(answers.reports)
    if len(answers.reports) > 1:
        _total(console, everything, now)
    _resources(console, everything["resources"])
    for note in notes(answers, everything, configured):
        sentence(console, f"! {note}", "yellow")


def _worker(console: Console, node: str, report: Mapping[str, Any], now: float) -> None:
    gate, slots = report["gate"], report["slots"]
    head = Text(node, style="bold")
    head.append(f"   gate {gate['mode']}", style=GATE_STYLES.get(gate["mode"], ""))
    head.append(f" for {duration(now - gate['since'])} ({gate_reason(gate)})", style="not bold")
    sentence(console, head)
    line = f"{plural(slots['total'], 'slot')}, {slots['reserve']} in reserve"
    fleet = report["fleet"]
    if fleet["workers"] > 1:
        line += f"; in a fleet of {plural(fleet['workers'], 'worker')} with {fleet['slots']} slots"
    if report["mode"] == "observe":
        line += "; only observing: tasks run in Celery's own order"
    if gate["blind"]:
        line += "; the queues can't be read"
    _indented(console, line)
    for words, since in stops(report):
        _warned(console, f"{words}, {ago(since, now)}")
    lines = (*engine_lines(report), *clearing_lines(report), *recording_lines(report))
    for words, style in lines:
        sentence(console, words, style, indent=2)
    _kinds(console, report["kinds"])
    _share(console, report, now)


def _total(console: Console, everything: Mapping[str, Any], now: float) -> None:
    gates = ", ".join(f"{number} {mode}" for mode, number in everything["gates"].items())
    slots = everything["slots"]
    console.print(Text(f"Total of {everything['workers']} workers   gates: {gates}", style="bold"))
    _indented(console, f"{slots['total']} slots, {slots['reserve']} in reserve")
    for words, workers in everything["stops"].items():
        _warned(console, f"{words} in {workers} of {plural(everything['workers'], 'worker')}")
    _kinds(console, everything["kinds"], bound="≤ ")
    _share(console, everything, now)


def _resources(console: Console, resources: Mapping[str, Any]) -> None:
    """What all workers share: once, as it is the same from each of them."""
    lines = list(resource_lines(resources))
    if lines:
        console.print(Text("Resources of all workers", style="bold"))
    for words, style in lines:
        sentence(console, words, style, indent=2)
    if lines:
        console.print()


def show_replay(console: Console, found: Counterfactual) -> None:
    """What celery-fair would have made of what was observed."""
    from celery_fair.cli.status_replay import replay_lines

    console.print(Text("With celery-fair", style="bold"))
    for words, style in replay_lines(found):
        sentence(console, words, style, indent=2)


def _kinds(console: Console, kinds: Mapping[str, Any], bound: str = "") -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", min_width=11)
    quantiles = ("p50", "p95", "p99") if console.width >= ROOM_FOR_QUANTILES else ("p95",)
    waits = (f"wait {quantiles[0]}", *quantiles[1:])
    for heading in ("in use", "held", "backlog", *waits):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in KINDS:
        part = kinds[kind]
        wait = part["wait_seconds"]
        table.add_row(
            kind if part["queues"] else f"({kind})",
            str(part["running"]),
            count(part["held"]),
            count(part["backlog"]) if part["queues"] else "–",
            *("–" if wait[name] is None else bound + duration(wait[name]) for name in quantiles),
        )
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _share(console: Console, report: Mapping[str, Any], now: float) -> None:
    share = report["share"]
    actual = percent(share["received"])
    if share["received"] is None:
        actual = "not measured yet (both kinds must want slots)"
    _indented(
        console,
        f"batch: guaranteed {percent(share['guaranteed'])}, actual {actual}; "
        f"last start {ago(report['last_batch_start'], now)}",
    )
    console.print()


def _warned(console: Console, line: str) -> None:
    sentence(console, line, "yellow", indent=2)


def _indented(console: Console, line: str) -> None:
    sentence(console, line, "dim", indent=2)


def notes(
    answers: Answers, everything: Mapping[str, Any], configured: Mapping[str, Sequence[str]]
) -> list[str]:
    """What is wrong in the picture, a sentence each."""
    found = [f"{node} works without celery-fair: {why}." for node, why in answers.silent.items()]
    if not answers.reports:
        return found
    # Nobody consumes a paused queue, as was ordered and is said above.
    paused = {
        pause["queue"]
        for report in answers.reports.values()
        for pause in (report.get("steering") or {}).get("paused", ())
    }
    for kind in KINDS:
        part = everything["kinds"][kind]
        missing = sorted(set(configured.get(kind, ())) - set(part["queues"]) - paused)
        if missing and not part["queues_left_out"]:
            found.append(
                f"No worker with celery-fair serves {', '.join(missing)} ({kind}); "
                f"`fair doctor` tells more."
            )
    found += [
        f"{one['task']}[{one['id']}] has lost its child, or overrun its time limit, "
        f"{one['times']} times."
        for one in everything["ended_by_pool"]
        if one["times"] > 1
    ]
    versions = {*everything["versions"], celery_fair.__version__}
    if len(versions) > 1:
        by_node = ", ".join(
            f"{node} {report['version']}" for node, report in answers.reports.items()
        )
        found.append(
            f"Versions of celery-fair differ: {by_node}; this command {celery_fair.__version__}."
        )
    return found
