"""Judges of the figures: what was measured, the bound, and a sentence with both numbers.

Pure: a measurement goes in, a finding comes out, so results on disk can be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one run measured.

    ``load`` is the ruler's (slots, durations, services), ``contestants`` has by name what was
    measured of each: for a mixed load the ruler's figures of all rounds pooled.
    """

    broker: str
    load: Mapping[str, Any]
    contestants: Mapping[str, Mapping[str, Any]]

    def p95(self, name: str) -> float:
        """Interactive wait in seconds; infinite if never measured."""
        value = self.contestants[name]["wait_p95"]
        return float("inf") if value is None else value

    def is_lower_bound(self, name: str) -> bool:
        """Whether some of the tasks up to the p95 were never started while observed."""
        return "p95" in self.contestants[name]["lower_bounds"]

    def p95_text(self, name: str) -> str:
        return f"{'≥' if self.is_lower_bound(name) else ''}{self.p95(name):.3f} s"

    def rate(self, name: str) -> float:
        """Batch tasks finished a second."""
        return self.contestants[name]["batch_per_second"]

    @property
    def batch_mean_seconds(self) -> float:
        low, _, high = str(self.load["batch_service"]).partition("-")
        return (float(low) + float(high or low)) / 2


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a bound holds, and both numbers."""

    passed: bool
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """One bound, in words and as a judge."""

    bound: str
    judge: Callable[[Measurement], Finding]


def any_of(*checks: Check) -> Check:
    """Holds if one of them does; shows the first that does, else all."""

    def judge(measured: Measurement) -> Finding:
        findings = [check.judge(measured) for check in checks]
        good = [finding for finding in findings if finding.passed]
        return good[0] if good else Finding(False, ", ".join(f.text for f in findings))

    return Check(", or ".join(check.bound for check in checks), judge)


# Interactive waits


def p95_within(ours: str, factor: float, peer: str) -> Check:
    """At most ``factor`` times the peer's p95. A peer's lower bound is fair: it is worse."""

    def judge(measured: Measurement) -> Finding:
        limit = factor * measured.p95(peer)
        passed = measured.p95(ours) <= limit and not measured.is_lower_bound(ours)
        text = f"p95 {measured.p95_text(ours)} against {measured.p95_text(peer)}"
        return Finding(passed, f"{text} (× {_ratio(measured.p95(ours), measured.p95(peer)):.2f})")

    return Check(f"p95 ≤ {factor:g} × {peer}'s", judge)


def p95_at_most(ours: str, seconds: float) -> Check:
    def judge(measured: Measurement) -> Finding:
        passed = measured.p95(ours) <= seconds and not measured.is_lower_bound(ours)
        return Finding(passed, f"p95 {measured.p95_text(ours)}")

    return Check(f"p95 ≤ {seconds:g} s", judge)


def p95_at_most_batch_times(ours: str, times: float) -> Check:
    """At most so many mean batch tasks."""

    def judge(measured: Measurement) -> Finding:
        finding = p95_at_most(ours, times * measured.batch_mean_seconds).judge(measured)
        return Finding(
            finding.passed, f"{finding.text}, mean batch task {measured.batch_mean_seconds:g} s"
        )

    return Check(f"p95 ≤ {times:g} mean batch tasks", judge)


def all_done(ours: str) -> Check:
    def judge(measured: Measurement) -> Finding:
        found = measured.contestants[ours]
        done, expected = found["interactive_completed"], found["interactive_expected"]
        return Finding(done == expected, f"{done} of {expected} done")

    return Check("all interactive tasks done", judge)


def nothing_lost(ours: str) -> Check:
    """No figure is worth a lost task."""

    def judge(measured: Measurement) -> Finding:
        found = measured.contestants[ours]
        lost, twice = found["lost"], found["executed_twice"]
        return Finding(not lost and not twice, f"{lost} lost, {twice} run twice")

    return Check("none lost, none twice", judge)


# Batch


def rate_within(ours: str, share: float, peer: str) -> Check:
    def judge(measured: Measurement) -> Finding:
        mine, theirs = measured.rate(ours), measured.rate(peer)
        text = f"batch {mine:.2f}/s against {theirs:.2f}/s (× {_ratio(mine, theirs):.2f})"
        return Finding(mine >= share * theirs, text)

    return Check(f"batch ≥ {share:g} × {peer}'s rate", judge)


def rate_at_least(ours: str, rate: float) -> Check:
    def judge(measured: Measurement) -> Finding:
        return Finding(measured.rate(ours) >= rate, f"batch {measured.rate(ours):.3f}/s")

    return Check(f"batch ≥ {rate:g}/s", judge)


def batch_share_at_least(ours: str, share: float) -> Check:
    """Finished batch tasks at their mean length, as a share of all slot-seconds."""

    def judge(measured: Measurement) -> Finding:
        got = measured.rate(ours) * measured.batch_mean_seconds / measured.load["slots"]
        return Finding(got >= share, f"batch share {got:.2f}")

    return Check(f"batch share ≥ {share:g}", judge)


def guaranteed_less_two_tasks(ours: str, share: float) -> Check:
    """``share·C`` slot-seconds a second over the window, less two tasks of mean length."""

    def judge(measured: Measurement) -> Finding:
        seconds, mean = measured.load["duration"], measured.batch_mean_seconds
        floor = share * measured.load["slots"] * seconds - 2 * mean
        got = measured.rate(ours) * mean * seconds
        return Finding(
            got >= floor, f"batch {got:.1f} of {floor:.1f} slot-seconds in {seconds:g} s"
        )

    return Check(f"batch ≥ {share:g}·C slot-seconds a second, less two tasks", judge)


def gap_within_batch_times(ours: str, times: float) -> Check:
    """The longest time without a batch start, of all rounds."""

    def judge(measured: Measurement) -> Finding:
        gap, mean = measured.contestants[ours]["longest_batch_gap"], measured.batch_mean_seconds
        return Finding(gap <= times * mean, f"longest gap {gap:.1f} s, mean batch task {mean:g} s")

    return Check(f"no gap without a batch start over {times:g} mean batch tasks", judge)


def slots_filled(ours: str, share: float) -> Check:
    """The slots that batch may have, filled so much of the time."""

    def judge(measured: Measurement) -> Finding:
        found = measured.contestants[ours]
        text = f"{found['filled']:.1%} filled; all of them at once {found['all_filled']:.1%}"
        return Finding(found["filled"] >= share, f"{text} of the time")

    return Check(f"C − reserve_min slots filled ≥ {share:.0%} of the time", judge)


# What it costs


def throughput_within(ours: str, shares: Mapping[str, float], peer: str) -> Check:
    """The median of the ratios of each round: the rounds alternate."""

    def judge(measured: Measurement) -> Finding:
        mine, theirs = (_rounds(measured, name, "consumed_per_second") for name in (ours, peer))
        ratio = median(m / t for m, t in zip(mine, theirs, strict=True))
        text = f"{median(mine):,.0f}/s against {median(theirs):,.0f}/s (× {ratio:.3f})"
        return Finding(ratio >= shares[measured.broker], text)

    return Check(f"throughput ≥ {_by_broker(shares)} × {peer}'s", judge)


def added_cpu_within(ours: str, microseconds: Mapping[str, float], peer: str) -> Check:
    """The median of the differences of each round.

    The ruler counts main process and children together; what the children do is the same.
    """

    def judge(measured: Measurement) -> Finding:
        name = "cpu_microseconds_per_task"
        mine, theirs = (_rounds(measured, who, name) for who in (ours, peer))
        added = median(m - t for m, t in zip(mine, theirs, strict=True))
        text = f"{median(mine):.0f} µs against {median(theirs):.0f} µs a task ({added:+.0f} µs)"
        return Finding(added <= microseconds[measured.broker], text)

    return Check(f"added CPU ≤ {_by_broker(microseconds)} µs a message", judge)


def sensor_reads_within(ours: str, per_second: float) -> Check:
    def judge(measured: Measurement) -> Finding:
        reads = measured.contestants[ours]["sensor_reads_per_second"]
        return Finding(reads <= per_second, f"{reads:.2f} sensor reads/s")

    return Check(f"≤ {per_second:g} sensor reads/s", judge)


def idle_cpu_within(ours: str, share: float, peer: str) -> Check:
    """CPU over stock's, as a share of one core."""

    def judge(measured: Measurement) -> Finding:
        mine, theirs = (measured.contestants[name]["cpu_share"] for name in (ours, peer))
        text = f"{mine:.2%} of a core against {theirs:.2%} ({mine - theirs:+.2%})"
        return Finding(mine - theirs <= share, text)

    return Check(f"≤ {share:.0%} of a core more than stock", judge)


def connections_within(ours: str, more: int, peer: str) -> Check:
    def judge(measured: Measurement) -> Finding:
        mine, theirs = (measured.contestants[name]["connections"] for name in (ours, peer))
        return Finding(mine - theirs <= more, f"{mine} connections against {theirs}")

    return Check(f"≤ {more} connections more than stock", judge)


def _rounds(measured: Measurement, name: str, value: str) -> list[float]:
    return [one[value] for one in measured.contestants[name]["rounds"]]


def _by_broker(bounds: Mapping[str, float]) -> str:
    return ", ".join(f"{bound:g} ({broker})" for broker, bound in bounds.items())


def _ratio(value: float, base: float) -> float:
    return value / base if base else float("inf")
