"""What a soak must show, as pure functions of what was sampled, counted and logged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from math import sqrt
from statistics import NormalDist, median
from typing import Any

BLOCKS = 24
"""Neighbouring samples are alike, so they are no independent evidence; medians of blocks are."""
CONFIDENCE = 0.95
CONFIDENT = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
WARM_UP = 0.25
"""The part of the series that is left out: caches fill, and the allocator finds its size."""
TOLERATED_KB_PER_MINUTE = 20.0
FINEST_KB_PER_MINUTE = 200.0
FEWEST = 12
"""Samples."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the verdict."""

    name: str
    passed: bool
    text: str


@dataclass(frozen=True, slots=True)
class Slope:
    """A change a minute, and the interval in which it lies with ``CONFIDENCE``."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.1f} kB/min [{self.low:+.1f}, {self.high:+.1f}]"


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time, in seconds."""

    times: Sequence[float]
    values: Sequence[float]

    def settled(self) -> Series:
        """Without the warm-up."""
        start = self.times[0] + WARM_UP * (self.times[-1] - self.times[0])
        kept = [
            (at, value) for at, value in zip(self.times, self.values, strict=True) if at >= start
        ]
        return Series(*zip(*kept, strict=True))

    def less(self, other: Series) -> Series:
        """The difference, where both were sampled."""
        theirs = dict(zip(other.times, other.values, strict=True))
        pairs = [
            (at, value - theirs[at])
            for at, value in zip(self.times, self.values, strict=True)
            if at in theirs
        ]
        return Series(*zip(*pairs, strict=True))


# memory


def slope(series: Series) -> Slope:
    """The median of the slopes between all pairs of block medians, with Sen's interval.

    P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968). A few
    wild values don't move it, and a single step up is no slope.
    """
    points = _blocks(series)
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0]) * 60.0
        for earlier, later in combinations(points, 2)
    )
    count = len(points)
    within = CONFIDENT * sqrt(count * (count - 1) * (2 * count + 5) / 18)
    lowest = max(round((len(slopes) - within) / 2), 0)
    highest = min(round((len(slopes) + within) / 2), len(slopes) - 1)
    return Slope(median(slopes), slopes[lowest], slopes[highest])


def _blocks(series: Series) -> list[tuple[float, float]]:
    points = list(zip(series.times, series.values, strict=True))
    count = min(BLOCKS, len(points))
    bounds = [round(number * len(points) / count) for number in range(count + 1)]
    parts = [points[start:end] for start, end in pairwise(bounds)]
    return [(median(at for at, _ in part), median(value for _, value in part)) for part in parts]


def judge_memory(name: str, ours: Series, stock: Series, tasks_per_minute: float) -> Finding:
    """Flat, or growing no more than the stock worker beside it, in kB.

    Growth counts if both our slope and the difference between the two are beyond their intervals
    and the tolerance. A run that could not have seen ``FINEST_KB_PER_MINUTE`` proves nothing.
    """
    if len(ours.times) < FEWEST or len(stock.times) < FEWEST:
        return Finding(name, False, f"{len(ours.times)} samples are too few to say")
    ours, stock = ours.settled(), stock.settled()
    grows, beside, more = slope(ours), slope(stock), slope(ours.less(stock))
    leaks = min(grows.low, more.low) > TOLERATED_KB_PER_MINUTE
    noise = max(grows.value - grows.low, more.value - more.low)
    blind, seen = noise > FINEST_KB_PER_MINUTE, noise + TOLERATED_KB_PER_MINUTE
    text = (
        f"{grows}; stock {beside}; more than stock {more}; at {median(ours.values) / 1024:.1f} MB, "
        f"stock {median(stock.values) / 1024:.1f} MB; a leak of {seen:.0f} kB/min, "
        f"{1024 * seen / tasks_per_minute:.0f} bytes a task, would have been told from noise"
    )
    return Finding(name, not leaks and not blind, text + (" (too noisy to say)" if blind else ""))


# counts


def judge_rest(name: str, ours: Mapping[str, Any], stock: Mapping[str, Any]) -> Finding:
    """Every counter of both our workers is zero at rest, and nothing is left at the broker."""
    left, silent = _left(ours), 2 - len(ours["probes"])
    counted = sum(len(probe["busy"]) for probe in ours["probes"].values())
    text = f"left: {left}" if left else f"{counted} counters are 0"
    if silent:
        text += f"; {silent} silent"
    return Finding(name, not left and not silent, f"{text}; stock's left: {_left(stock) or 'none'}")


def _left(sample: Mapping[str, Any]) -> dict[str, int]:
    left = {f"ready in {queue}": count for queue, count in sample["ready"].items()}
    left["unacknowledged"] = sample["unacknowledged"]
    for node, probe in sample["probes"].items():
        left |= {f"{what} at {node}": count for what, count in probe["busy"].items()}
    return {what: count for what, count in left.items() if count}


def judge_kept(
    name: str, before: Mapping[str, int], after: Mapping[str, int], stock: Mapping[str, int]
) -> Finding:
    """What a worker keeps at rest has not grown; or no more than the stock worker's, ``stock``."""
    told = {
        what: f"{what} {before[what]} → {count} (stock {stock.get(what, 0):+d})"
        for what, count in after.items()
    }
    grown = [
        what for what, count in after.items() if count - before[what] > max(stock.get(what, 0), 0)
    ]
    text = ", ".join(told.values())
    return Finding(name, not grown, f"grown: {', '.join(grown)}; {text}" if grown else text)


def judge_windows(ours: Sequence[int | None], stock: Sequence[int | None], most: int) -> Finding:
    """What a worker may hold at rest, first and last.

    Celery's one count is to come back to where it was; ours follow the reserve and the mean run
    times, and are to stay within bounds.
    """
    passed = all(count is not None and 0 < count <= most for count in ours)
    text = f"{ours[0]} → {ours[1]} messages, at most {most}; stock {stock[0]} → {stock[1]}"
    return Finding("windows at rest", passed, text)


def judge_audit(corrections: Iterable[int]) -> Finding:
    """The audit of slots had nothing to correct, whenever a worker was asked."""
    corrections = list(corrections)
    text = f"{max(corrections, default=0)} corrections, asked {len(corrections)} times"
    return Finding("the audit", not any(corrections), text)


def judge_ends(ours: Mapping[str, int | None], stock: Mapping[str, int | None]) -> Finding:
    """Each worker has lived to the end, and stopped when it was asked to; by its exit code."""
    bad = {name: code for name, code in {**ours, **stock}.items() if code != 0}
    text = f"exit codes other than 0 (None: it did not stop): {bad}" if bad else "all stopped"
    return Finding("the end", not set(bad).intersection(ours), text)


# tasks


@dataclass(frozen=True, slots=True)
class Account:
    """What came of the published tasks."""

    published: int
    finished: int
    failed: int
    again: int
    """Runs beyond the first of one attempt: redelivered when a connection was lost."""
    again_early: int
    """Of tasks acknowledged early: redelivered before the acknowledgement, or run twice."""
    lost: list[str]


def account(published: Iterable[str], entries: Iterable[Any]) -> Account:
    """What the journal tells of these tasks; each is to end once, and may be run again."""
    ends: Counter[tuple[str, str]] = Counter()
    runs: Counter[tuple[str, int, bool]] = Counter()
    for entry in entries:
        ends[entry.label, entry.event] += 1
        if entry.event == "start":
            runs[entry.label, entry.more["retries"], ".early" in entry.name] += 1
    published = list(published)
    finished = [one for one in published if ends[one, "finish"]]
    failed = [one for one in published if ends[one, "error"]]
    lost = set(published).difference(finished, failed)
    return Account(
        published=len(published),
        finished=len(finished),
        failed=len(failed),
        again=sum(count - 1 for count in runs.values()),
        again_early=sum(count - 1 for (_, _, early), count in runs.items() if early),
        lost=sorted(lost),
    )


def judge_tasks(ours: Account, stock: Account) -> Finding:
    """Nothing lost, and not more than the stock worker beside it where that has lost some."""
    text = (
        f"{ours.published} published, {ours.finished} finished, {ours.failed} failed as asked, "
        f"{len(ours.lost)} lost (stock {len(stock.lost)}); run again after a lost connection "
        f"{ours.again}, of them acknowledged early {ours.again_early} "
        f"(stock {stock.again}, {stock.again_early})"
    )
    if ours.lost:
        text += f"; lost: {', '.join(ours.lost[:10])}"
    return Finding("tasks", not ours.lost, text)


# the log

RECORD = re.compile(r"^\[[^\]]*: (?P<level>[A-Z]+)/(?P<process>[^\]]+)\] (?P<text>.*)$")
LOUD = ("WARNING", "ERROR", "CRITICAL")

EXPECTED = {
    "a task fails as asked": r"Task \S+ raised unexpected: ValueError\('as asked'\)",
    "its connection is cut": r"consumer: Connection to broker lost\.",
    "Celery speaks of a setting when a connection is lost": r"\S+: CPendingDeprecationWarning: $",
    "the sensor's connection is cut": r"celery-fair: the sensor can't read the queues",
    "the other worker is away, or its own connection": r"celery-fair: the other workers are out of",
    "a late task ends after its connection": r"Couldn't ack '?\d+'?, reason:",
    # RabbitMQ's ok to a window that was changed as the worker stopped; nobody waits for it.
    "an answer comes as its channel is closed": r"Received method \(60, [123]1\) during closing",
    # billiard sends SIGTERM to a child that it believes idle, and that has just been given a task.
    "a shrunk pool ends a child that is at work": r"Task handler raised error: WorkerLostError"
    r"\('Worker exited prematurely: signal 15 \(SIGTERM\)",
    # Celery's pool registers the pipes of children that are gone with the loop of a new connection.
    "the pool looks for a child that is gone": r"Encountered error when accessing fd \d+$",
}
"""What a worker may say, louder than INFO, in a soak: why, and how it begins."""


def judge_log(logs: Mapping[str, str], cuts: int) -> Finding:
    """No warning or error but the expected, in the logs by the worker's name.

    A worker finds each of its connections cut once; more often, and something else is wrong.
    """
    counts: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for log in logs.values():
        for text in loud(log):
            reason = expected(text)
            (others if reason is None else counts)[reason or text] += 1
    for reason in ("its connection is cut", "the sensor's connection is cut"):
        if counts[reason] > cuts:
            others[f"{reason}, though that was done {cuts} times"] = counts[reason]
    told = ", ".join(f"{count} × {reason}" for reason, count in counts.most_common())
    if not others:
        return Finding("the log", True, told or "nothing louder than INFO")
    worst = "; ".join(f"{count} × {text[:160]}" for text, count in others.most_common(8))
    return Finding("the log", False, f"unexpected: {worst}; expected: {told}")


def loud(log: str) -> Iterable[str]:
    """The first line of each record louder than INFO, and of each traceback that has no such."""
    level = ""
    for line in log.splitlines():
        if record := RECORD.match(line):
            level = record["level"]
            if level in LOUD:
                yield record["text"]
        elif line.startswith("Traceback") and level not in LOUD:
            yield line


def expected(text: str) -> str | None:
    """Why a record is expected, or ``None``."""
    return next((why for why, begins in EXPECTED.items() if re.match(begins, text)), None)


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    return [asdict(finding) for finding in findings]
