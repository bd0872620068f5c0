"""The sum over the workers' facts, which a view of many workers shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from celery_fair.observe.resources import newest
from celery_fair.observe.steering import stops
from celery_fair.policy.kinds import KINDS

SHOWN = 5
"""Tasks that pools had to end, of a whole cluster."""

WAITING_HERE = ("held", "rate_limited", "uncleared")
"""What a backlog has beside what is ready at the broker; another version may tell less."""

QUANTILES = ("p50", "p95", "p99", "max")


def total(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The sum over the workers, in the shape of one report.

    Messages ready at the broker are the same for all who consume the queue, so each queue counts
    once. Quantiles of waits can't be added up: the largest of the workers' is given, which the
    quantile over all tasks never exceeds. Of what workers left out of a long list, the
    largest number counts.
    """
    every = list(reports.values())
    slots = sum(report["slots"]["total"] for report in every)
    modes = [report["gate"]["mode"] for report in every]
    starts = [report["last_batch_start"] for report in every if report["last_batch_start"]]
    return {
        "workers": len(every),
        "gates": {mode: modes.count(mode) for mode in sorted(set(modes))},
        "slots": {"total": slots, "reserve": sum(report["slots"]["reserve"] for report in every)},
        "share": {name: _by_slots(every, name) for name in ("guaranteed", "received")},
        "last_batch_start": max(starts, default=None),
        "ended_by_pool": _ended(every),
        "stops": Counter(words for report in every for words, _ in stops(report)),
        "engine": _fullest(every),
        "resources": newest(reports),
        "versions": sorted({report["version"] for report in every}),
        "kinds": {kind: _kind([report["kinds"][kind] for report in every]) for kind in KINDS},
    }


def _fullest(reports: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The engine as it looks to who sees most waiting in it; each worker asks for itself."""
    probed = [one for report in reports if (one := report.get("engine") or {}).get("probed")]
    return max(probed, key=lambda one: one["pressure"] or 0.0, default={"probed": False})


def _ended(reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tasks that pools have ended: one may have come back to several workers."""
    found: dict[str, dict[str, Any]] = {}
    for one in (one for report in reports for one in report.get("ended_by_pool", ())):
        times = found[one["id"]]["times"] if one["id"] in found else 0
        found[one["id"]] = {**one, "times": one["times"] + times}
    return sorted(found.values(), key=lambda one: -one["times"])[:SHOWN]


def _by_slots(reports: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """The mean of a share over the slots of those who know it."""
    known = [
        (report["share"][name], report["slots"]["total"])
        for report in reports
        if report["share"][name] is not None
    ]
    slots = sum(weight for _, weight in known)
    return sum(share * weight for share, weight in known) / slots if slots else None


def _kind(parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    summed = ("running", *WAITING_HERE, "scheduled", "dispatched", "given_back")
    together: dict[str, Any] = {name: sum(part.get(name, 0) for part in parts) for name in summed}
    ready = ready_by_queue(parts)
    left_out = max((part.get("ready_left_out", 0) for part in parts), default=0)
    waits = [part["wait_seconds"] for part in parts]
    return {
        **together,
        "queues": sorted({queue for part in parts for queue in part["queues"]}),
        "queues_left_out": max((part.get("queues_left_out", 0) for part in parts), default=0),
        "ready": ready,
        "backlog": (
            None if ready is None else sum(ready.values()) + left_out + waiting_here(together)
        ),
        "wait_seconds": {
            "count": sum(wait["count"] for wait in waits),
            **{
                name: max((wait[name] for wait in waits if wait[name] is not None), default=None)
                for name in QUANTILES
            },
        },
    }


def waiting_here(part: Mapping[str, Any]) -> int:
    """What of a backlog waits in workers."""
    return sum(part.get(name, 0) for name in WAITING_HERE)


def at_broker(part: Mapping[str, Any]) -> int | None:
    """The rest of it: what workers have left out of their lists of queues is in it, too."""
    backlog: int | None = part["backlog"]
    return None if backlog is None else backlog - waiting_here(part)


def ready_by_queue(parts: Iterable[Mapping[str, Any]]) -> dict[str, int] | None:
    """Messages at the broker by queue, or ``None`` if nobody could read one of them."""
    found: dict[str, int] = {}
    unread: set[str] = set()
    read: set[str] = set()
    for part in parts:
        (unread if part["ready"] is None else read).update(part["queues"])
        for queue, number in (part["ready"] or {}).items():
            found[queue] = max(found.get(queue, 0), number)
    return None if unread - read else found
