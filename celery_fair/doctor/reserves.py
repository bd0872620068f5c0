"""Reserves that can't do what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies, setting

CANT_HOLD: Final = rule(
    "F111",
    "warning",
    "a reserve that can't hold",
    why="More interactive tasks come while every other slot is busy than the free ones can take, "
    "so that they wait for something to end.",
    cure='Set reserve to "auto", add slots or workers, or shorten batch tasks; a reserve is never '
    "more than half of the slots.",
)
ALONE: Final = rule(
    "F112",
    "warning",
    "a worker with one slot, and nobody beside it",
    why="One slot can't be kept free: an interactive task waits for the batch task that has it.",
    cure="Give it two slots (--concurrency), or start a second worker on the same queues: on Redis "
    "and RabbitMQ they act as one fleet.",
)


def reserve_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    reports = {n: r for n, r in replies.reports.items() if r["mode"] == "enforce"}
    late = replies.late()
    weak = {
        node: reason
        for node, report in reports.items()
        if node in late and (reason := _weakness(report)) is not None
    }
    if weak:
        shown = named(
            f"{node} ({reason}; interactive tasks have waited {late[node]:.1f} s)"
            for node, reason in weak.items()
        )
        yield CANT_HOLD.finding(f"The reserve is too small: {shown}", weak)
    alone = [node for node, report in reports.items() if _is_alone(report)]
    if alone:
        yield ALONE.finding(f"One slot for both kinds: {named(alone)}", alone)


def _weakness(report: Mapping[str, Any]) -> str | None:
    """Why a reserve can't be more than it is; ``None`` where it has room."""
    slots, said = report["fleet"]["slots"], setting(report, "reserve")
    if slots < 2:
        return None
    if said != "auto":
        return f"reserve = {said}" if said < slots // 2 else None
    has_all = report["slots"]["reserve"] >= report["slots"]["total"] // 2 > 0
    return f"half of its {report['slots']['total']} slots already" if has_all else None


def _is_alone(report: Mapping[str, Any]) -> bool:
    serves_both = all(part["queues"] for part in report["kinds"].values())
    return serves_both and report["slots"]["total"] == 1 and report["fleet"]["workers"] <= 1
