"""Clocks that disagree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies

SKEWED: Final = rule(
    "F115",
    "warning",
    "clocks that disagree",
    why="Waits, queue-wait timeouts and the order inside a lane are counted from the time that a "
    "publisher has written: with a wrong clock they are wrong by as much. The gate goes by the "
    "worker's own clock, and isn't moved.",
    cure="Synchronize the clocks (NTP, chrony) of publishers and workers.",
)

#: What NTP leaves, and an answer that waits in a busy worker, is far less.
SKEW_SECONDS: Final = 1.0

CLAMPED: Final = 10
CLAMPED_PART: Final = 0.01


def clock_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    off = {
        node: skew
        for node, checkup in replies.checkups.items()
        if abs(skew := _skew(float(checkup["time"]), *replies.asked)) > SKEW_SECONDS
    }
    if off:
        shown = named(f"{node} {skew:+.0f} s" for node, skew in off.items())
        yield SKEWED.finding(f"Clocks of workers against this machine's: {shown}", off)
    ahead: dict[str, int] = {}
    for node, report in replies.reports.items():
        clamps = report["clock_skew_clamps"]
        dispatched = sum(part["dispatched"] for part in report["kinds"].values())
        if clamps >= CLAMPED and clamps > CLAMPED_PART * dispatched:
            ahead[node] = clamps
    if ahead:
        shown = named(f"{number} on {node}" for node, number in ahead.items())
        yield SKEWED.finding(f"Messages that come from the future: {shown}", ahead)


def _skew(said: float, begun: float, ended: float) -> float:
    """By how much a time can't have been said between the question and its answer."""
    return said - min(max(said, begun), ended)
