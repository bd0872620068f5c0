"""Orders that workers were given while they run: whether all have them, and what is still on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies, by_value, shown

APART: Final = rule(
    "F126",
    "warning",
    "workers that follow different orders",
    why="What was paused or set holds for some of them only.",
    cure="Ask again in a few seconds, for orders spread by themselves; then give the order once "
    "more, and look whether the workers reach the same broker.",
)
STILL_PAUSED: Final = rule(
    "F127",
    "info",
    "work that is paused, or a worker that is drained",
    why="What is paused waits, and nothing ends a pause by itself.",
    cure="`fair resume` ends a pause that isn't meant any more, `fair drain --undo` a drain.",
)
REFUSED: Final = rule(
    "F128",
    "warning",
    "an order that a worker can't follow",
    why="It goes on with the settings that it had.",
    cure="Give an order that all of them can follow, or finish their upgrade.",
)

#: A pause may be forgotten after so long.
FORGOTTEN_SECONDS: Final = 3600.0


def order_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    steering = {n: r["steering"] for n, r in replies.reports.items() if "steering" in r}
    versions = by_value({node: said["version"] for node, said in steering.items()}, str)
    if len(versions) > 1:
        yield APART.finding(f"Orders are of version {shown(versions)}", steering)
    yield from _still_paused(steering)
    refused = {node: said["refused"] for node, said in steering.items() if said["refused"]}
    if refused:
        reasons = [
            f"{name} on {node}: {why}" for node, r in refused.items() for name, why in r.items()
        ]
        yield REFUSED.finding(f"Refused: {named(reasons)}", refused)


def _still_paused(steering: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    since: dict[str, float] = {}
    for node, said in steering.items():
        for pause in said["paused"]:
            what = f"{pause['queue'] or pause['kind']} by {pause['by']}"
            since[what] = min(since.get(what, pause["at"]), pause["at"])
        if said["draining"] is not None:
            since[f"{node} (drained) by {said['draining']['by']}"] = said["draining"]["at"]
    if since:
        now = time.time()
        is_old = now - min(since.values()) > FORGOTTEN_SECONDS
        times = named(f"{what}, for {_minutes(now - at)}" for what, at in since.items())
        yield STILL_PAUSED.finding(
            f"Paused: {times}", since, severity="warning" if is_old else "info"
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else "less than a minute"
