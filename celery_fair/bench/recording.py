"""What the workers' own counts say of the time between two looks at them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery_fair.policy.kinds import KINDS, Kind

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """The answers of all workers at one moment; ``at`` is in seconds, of any clock."""

    at: float
    reports: Mapping[str, Facts]
    """Of the workers with celery-fair: what they answer to ``fair_status``."""
    stats: Mapping[str, Facts] = field(default_factory=dict)
    """Of the plain ones: what they answer to ``stats``."""


@dataclass(slots=True)
class Sampled:
    """How many tasks plain workers ran, looked at now and then: they count no slot time."""

    samples: int = 0
    running: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def add(self, replies: Mapping[str, Any], batch_queues: Sequence[str]) -> None:
        """Take one reply of all plain workers to ``active``."""
        self.samples += 1
        for tasks in replies.values():
            for task in tasks if isinstance(tasks, list) else ():
                queue = (task.get("delivery_info") or {}).get("routing_key")
                self.running["batch" if queue in batch_queues else "interactive"] += 1

    def slots(self, kind: Kind) -> float:
        """The mean of those that ran."""
        return self.running[kind] / self.samples if self.samples else 0.0


def use_of_slots(before: Look, after: Look, sampled: Sampled) -> dict[str, Any]:
    """Utilisation, share and throughput between two looks; ``None`` what nobody knows."""
    seconds = max(after.at - before.at, 1e-9)
    slot_seconds = {
        kind: counted(before, after, kind, "slot_seconds") + sampled.slots(kind) * seconds
        for kind in KINDS
    }
    slots = slots_of(after)
    used = sum(slot_seconds.values())
    counted_twice = after is not before
    knows = counted_twice if after.reports else sampled.samples > 0
    return {
        "slots": slots,
        "slots_in_use": {kind: slot_seconds[kind] / seconds if knows else None for kind in KINDS},
        "utilisation": used / (slots * seconds) if knows and slots else None,
        "batch_part": slot_seconds["batch"] / used if used else None,
        "sampled": sampled.samples,
        "tasks_a_second": _finished(before, after) / seconds if counted_twice else None,
    }


def slots_of(look: Look) -> int:
    """The slots of all workers."""
    fair = sum(report["slots"]["total"] for report in look.reports.values())
    return fair + sum(
        int((stats.get("pool") or {}).get("max-concurrency") or 0) for stats in look.stats.values()
    )


def counted(before: Look, after: Look, kind: Kind, name: str) -> float:
    """How much one figure of a kind has grown; a worker that has started anew begins at 0."""
    grown = 0.0
    for node, report in after.reports.items():
        grown += report["kinds"][kind][name] - _then(before, node, report, kind, name, 0)
    return grown


def buckets(before: Look, after: Look, kind: Kind) -> list[int]:
    """The waits that were counted between the looks, by bucket."""
    grown: list[int] = []
    for node, report in after.reports.items():
        new = report["kinds"][kind]["waits"]["buckets"]
        old = _then(before, node, report, kind, "waits", {"buckets": [0] * len(new)})["buckets"]
        parts = [now - then for now, then in zip(new, old, strict=True)]
        grown = [a + b for a, b in zip(grown or [0] * len(parts), parts, strict=True)]
    return grown


def left(before: Look, after: Look) -> list[str]:
    """Workers that had answered before, and no more after."""
    there = {*after.reports, *after.stats}
    return sorted(({*before.reports, *before.stats}) - there)


def _then(before: Look, node: str, report: Facts, kind: Kind, name: str, none: Any) -> Any:
    old = before.reports.get(node)
    if old is None or old["started_at"] != report["started_at"]:
        return none
    return old["kinds"][kind][name]


def _finished(before: Look, after: Look) -> float:
    """Tasks that ended; plain workers count those that they have accepted."""
    fair = 0.0
    for kind in KINDS:
        for node, report in after.reports.items():
            new = sum(report["kinds"][kind]["finished"].values())
            fair += new - sum(_then(before, node, report, kind, "finished", {}).values())
    for node, stats in after.stats.items():
        fair += _total(stats) - _total(before.stats.get(node, {}))
    return fair


def _total(stats: Facts) -> int:
    return sum((stats.get("total") or {}).values())
