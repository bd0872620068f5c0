"""Gates that never close, never open, or do so all the time; and those that see nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies

NEVER_CLOSED: Final = rule(
    "F107",
    "warning",
    "interactive tasks wait, and the gate never closes",
    why="Nothing that the gate looks at passes its threshold: the backlog beyond the free slots, "
    "and the wait since a worker has received a task.",
    cure="Lower protect_backlog or protect_wait_seconds; if waits are long before a worker has the "
    "task, look at the publishers' clocks and at who else consumes the queue.",
)
NEVER_OPEN: Final = rule(
    "F108",
    "warning",
    "a gate that is shut nearly all the time",
    why="There are too few slots for what is interactive: batch gets its guaranteed share and no "
    "more, and interactive tasks queue for each other.",
    cure="Add workers or slots, or look whether bulk work is among the interactive tasks "
    "(`fair top`, F001).",
)
FLAPPING: Final = rule(
    "F109",
    "info",
    "a gate that opens and closes all the time",
    why="Its thresholds are within the noise of the load; each change withholds batch or lets it "
    "in for a moment.",
    cure="Raise protect_hold_seconds to a second or two, or protect_wait_seconds.",
)
BLIND: Final = rule(
    "F110",
    "warning",
    "a worker that can't count its queues",
    why="The gate then judges by what the worker holds alone, and `fair status` shows no backlog.",
    cure="Look at its log for why; some transports (SQS) can't be counted, and then this stays.",
)

#: Of the time that a worker has been there, if that is long enough to judge by.
SHUT_PART: Final = 0.9
JUDGED_SECONDS: Final = 600.0
CHANGES_A_MINUTE: Final = 20.0
SETTLED_SECONDS: Final = 60.0


def gate_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    reports = {
        node: report
        for node, report in replies.reports.items()
        if report["mode"] == "enforce" and _serves_both(report)
    }
    yield from _never_closed(reports, replies.late())
    shut = {node: part for node, report in reports.items() if (part := _shut(report)) > SHUT_PART}
    if shut:
        parts = named(f"{node} {part:.0%}" for node, part in shut.items())
        yield NEVER_OPEN.finding(f"The gate was shut for most of the time: {parts}", shut)
    flapping = {
        node: changes
        for node, report in reports.items()
        if (changes := _changes_a_minute(report)) > CHANGES_A_MINUTE
    }
    if flapping:
        shown = named(f"{node} {changes:.0f}" for node, changes in flapping.items())
        yield FLAPPING.finding(f"Changes of the gate a minute: {shown}", flapping)
    blind = [node for node, report in reports.items() if _is_blind(report)]
    if blind:
        has_tried = any(reports[node]["sensor"]["failures"] for node in blind)
        yield BLIND.finding(
            f"No count of what waits at the broker: {named(blind)}",
            blind,
            severity="warning" if has_tried else "info",  # else it is the transport's nature
        )


def _never_closed(
    reports: Mapping[str, Mapping[str, Any]], late: Mapping[str, float]
) -> Iterator[Finding]:
    open_ = {
        node: late[node]
        for node, report in reports.items()
        if node in late and not report["gate"]["seconds"]["protected"]
    }
    if open_:
        shown = named(f"{seconds:.1f} s on {node}" for node, seconds in open_.items())
        yield NEVER_CLOSED.finding(
            f"One interactive task in twenty has waited for {shown}, with the gate open all along",
            open_,
        )


def _serves_both(report: Mapping[str, Any]) -> bool:
    return all(part["queues"] for part in report["kinds"].values())


def _seconds(report: Mapping[str, Any]) -> float:
    return float(sum(report["gate"]["seconds"].values()))


def _shut(report: Mapping[str, Any]) -> float:
    seconds = _seconds(report)
    return report["gate"]["seconds"]["protected"] / seconds if seconds >= JUDGED_SECONDS else 0.0


def _changes_a_minute(report: Mapping[str, Any]) -> float:
    seconds = _seconds(report)
    changes = sum(sum(causes.values()) for causes in report["gate"]["changes"].values())
    return float(changes / seconds * 60) if seconds >= SETTLED_SECONDS else 0.0


def _is_blind(report: Mapping[str, Any]) -> bool:
    return not report["sensor"]["available"] and _seconds(report) >= SETTLED_SECONDS
