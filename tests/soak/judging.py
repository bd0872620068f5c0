"""The verdict on a soak: which of what was recorded bears which of the promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.nodes.journal import Journal
from tests.soak import verdict
from tests.soak.side import SLOTS
from tests.soak.verdict import Finding, Series

Record = dict[str, Any]

OURS, STOCK = "fair", "stock"
MOST_CREDIT = 2 * SLOTS * 4
"""Of both lanes: no more than Celery would prefetch for each, with its multiplier of 4."""


def judge(record: Record, folder: Path) -> Record:
    """The findings, with what a reader needs to weigh them."""
    findings = list(_findings(record, folder))
    return {
        **{name: record[name] for name in ("options", "began", "machine", "sides")},
        "passed": all(finding.passed for finding in findings),
        "findings": verdict.as_json(findings),
        "acts": len(record["acts"]),
        "published": len(record["published"]),
        "published_late_seconds": record["late_seconds"],
        "peaks": {name: _peaks(record, name) for name in (OURS, STOCK)},
        "rests": record["rests"],
        "samples": record["samples"],
    }


def text(result: Record) -> str:
    """The verdict for people, a line a finding."""
    lines = [
        f"{'holds ' if one['passed'] else 'MISSED'} {one['name']}: {one['text']}"
        for one in result["findings"]
    ]
    return "\n".join([*lines, "passed" if result["passed"] else "NOT passed"])


def _findings(record: Record, folder: Path) -> Iterator[Finding]:
    per_minute = _tasks_per_minute(record)
    for name, read in (
        ("memory of the main process", lambda of: of["rss"]),
        ("memory of a pool child", lambda of: of["children_rss"] / max(of["children"], 1)),
    ):
        ours, stock = (_series(record, side, read) for side in (OURS, STOCK))
        if any(ours.values):  # a pool of threads has no children
            yield verdict.judge_memory(name, ours, stock, per_minute)
    first, last = record["rests"]
    for name, rest in (("the first rest", first), ("the last rest", last)):
        yield verdict.judge_rest(name, rest[OURS], rest[STOCK])
    before, after = _kept(first, OURS), _kept(last, OURS)
    stock_before, stock_after = _kept(first, STOCK), _kept(last, STOCK)
    windows = [kept.pop("prefetch", None) for kept in (before, after, stock_before, stock_after)]
    yield verdict.judge_windows(windows[:2], windows[2:], MOST_CREDIT)
    grown = {what: count - stock_before.get(what, count) for what, count in stock_after.items()}
    yield verdict.judge_kept("what a worker keeps at rest", before, after, grown)
    probes = [probe for one in record["samples"] for probe in one[OURS]["probes"].values()]
    yield verdict.judge_audit(probe["audited"] for probe in probes)
    yield verdict.judge_ends(record["ends"][OURS], record["ends"][STOCK])
    yield verdict.judge_tasks(*(_account(record, folder, side) for side in (OURS, STOCK)))
    logs = {path.name: path.read_text() for path in _logs(folder)}
    yield verdict.judge_log(logs, record["sides"][OURS]["cuts"])


def _logs(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{OURS}-*.log"))


def _account(record: Record, folder: Path, side: str) -> verdict.Account:
    return verdict.account(record["published"], Journal(folder / f"{side}-journal.jsonl").entries())


def _samples(record: Record) -> list[Record]:
    """Those of the second stretch, in which nothing is new to the workers."""
    start, end = record["stretches"][-1]
    return [sample for sample in record["samples"] if start <= sample["at"] <= end]


def _series(record: Record, side: str, read: Any) -> Series:
    """Of the worker that lasts, in kB."""
    node = f"lasting@{side}"
    found = [(one["at"], one[side]["processes"].get(node)) for one in _samples(record)]
    found = [(at, read(processes) / 1024) for at, processes in found if processes]
    return Series(*zip(*found, strict=True))


def _tasks_per_minute(record: Record) -> float:
    node = f"lasting@{OURS}"
    done = [
        (one["at"], one[OURS]["probes"][node]["done"])
        for one in _samples(record)
        if node in one[OURS]["probes"]
    ]
    (start, before), (end, after) = done[0], done[-1]
    return (after - before) / (end - start) * 60.0


def _kept(rest: Record, side: str) -> dict[str, int]:
    node = f"lasting@{side}"
    processes, probe = rest[side]["processes"][node], rest[side]["probes"].get(node, {})
    counts = {name: processes[name] for name in ("fds", "threads", "children")}
    return {**counts, **probe.get("kept", {})}


def _peaks(record: Record, side: str) -> dict[str, int]:
    """The highest of what was sampled: a soak in which nothing ever waited shows little."""
    peaks: dict[str, int] = {}
    for sample in record["samples"]:
        seen = {f"ready in {queue}": count or 0 for queue, count in sample[side]["ready"].items()}
        for probe in sample[side]["probes"].values():
            for what, count in probe["busy"].items():
                seen[what] = seen.get(what, 0) + count
        for what, count in seen.items():
            peaks[what] = max(peaks.get(what, 0), count)
    return peaks
