"""How long tasks run, against what is promised and what the broker waits for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.patience import SHORT_FOR_RUN, patience
from celery_fair.doctor.replies import ENOUGH, Replies
from celery_fair.doctor.tasks import own_tasks
from celery_fair.observe.counts import BOUNDS, quantile
from celery_fair.policy.kinds import BATCH, KINDS, Kind

TOO_LONG: Final = rule(
    "F113",
    "info",
    "batch tasks too long for the promise",
    why="A slot that batch has comes back when its task ends, since nothing running is ever "
    "killed: when the reserve is used up, interactive tasks wait for that.",
    cure="Make such a task a job of its parts (@job_task, Fair.submit_job; docs/jobs.md), or have "
    "it give its slot back between two of them (Fair.yielding; docs/yielding.md), or raise "
    "reserve.",
)
LOST_ON_CRASH: Final = rule(
    "F114",
    "info",
    "long tasks that a crash loses",
    why="They are acknowledged as they begin: a worker that is killed has lost what it ran.",
    cure="Set acks_late for those that may run twice, with a time limit under the broker's "
    "patience (F003).",
)

#: A 95th percentile over so many times ``protect_wait_seconds`` is worth a note.
LONG: Final = 100
MINUTE: Final = 60.0


class Mean(NamedTuple):
    """What the workers' means of one task's run times come to."""

    kind: Kind
    seconds: float
    runs: int


def run_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    if not replies.reports:
        return
    means = longest(replies)
    yield from _too_long(fair, replies, means)
    yield from _outlasts(fair, replies, means)
    yield from _lost_on_crash(fair, means)


def longest(replies: Replies) -> dict[str, Mean]:
    """The tasks that workers name as their longest, the longest first."""
    found: dict[str, Mean] = {}
    for checkup in replies.checkups.values():
        for kind in KINDS:
            for name, seconds, runs in checkup["longest"][kind]:
                known = found.get(name, Mean(kind, 0.0, 0))
                total = known.runs + runs
                mean = (known.seconds * known.runs + seconds * runs) / total
                found[name] = Mean(kind, mean, total)
    return dict(sorted(found.items(), key=lambda item: -item[1].seconds))


def _too_long(fair: Fair, replies: Replies, means: dict[str, Mean]) -> Iterator[Finding]:
    buckets = replies.buckets(BATCH, "runs")
    seconds = quantile(buckets, 0.95) if sum(buckets) >= ENOUGH else None
    promised, late = fair.settings.protect_wait_seconds, replies.late()
    batch = {name: mean.seconds for name, mean in means.items() if mean.kind == BATCH}
    what = "One batch task in twenty runs for {:.0f} s or longer"
    if late and (seconds or 0.0) < max(late.values()):  # those that run may be longer by now
        batch = _running(replies)
        seconds, what = (
            max(batch.values(), default=None),
            "Batch tasks have run for {:.0f} s by now",
        )
    if seconds is None or seconds < min([*late.values(), LONG * promised]):
        return
    waits = f", and interactive tasks have waited {max(late.values()):.1f} s" if late else ""
    longest_ones = named(f"{name} {each:.0f} s" for name, each in batch.items() if each >= promised)
    yield TOO_LONG.finding(
        f"{what.format(seconds)}{waits}: {longest_ones or 'not known which'}",
        batch,
        severity="warning" if late else "info",
    )


def _running(replies: Replies) -> dict[str, float]:
    """How long the batch tasks have run that run now, by name."""
    found: dict[str, float] = {}
    for checkup in replies.checkups.values():
        for one in checkup["running"]:
            if one["kind"] == BATCH:
                found[one["task"]] = max(found.get(one["task"], 0.0), one["seconds"])
    return found


def _outlasts(fair: Fair, replies: Replies, means: dict[str, Mean]) -> Iterator[Finding]:
    """Runs that were longer than the broker waits, where tasks acknowledge late."""
    limit = patience(fair)
    late = [name for name, task in own_tasks(fair.app).items() if task.acks_late]
    if limit is None or not late:
        return
    first = next((place for place, bound in enumerate(BOUNDS) if bound >= limit.seconds), None)
    runs = sum(sum(replies.buckets(kind, "runs")[first + 1 :]) for kind in KINDS) if first else 0
    certain = [name for name in late if name in means and means[name].seconds >= limit.seconds]
    if runs:
        names = certain or late
        yield SHORT_FOR_RUN.finding(
            f"{runs} runs were longer than the {limit.name}; these acknowledge late: "
            f"{named(names)}",
            names,
            why=f"Of a late one that runs for so long, {limit.consequence}",
            cure=f"{limit.raise_it} above the longest run, or split the task.",
        )


def _lost_on_crash(fair: Fair, means: dict[str, Mean]) -> Iterator[Finding]:
    tasks = own_tasks(fair.app)
    early = {
        name: mean.seconds
        for name, mean in means.items()
        if mean.seconds >= MINUTE and name in tasks and not tasks[name].acks_late
    }
    if early:
        shown = named(f"{name} ({seconds / MINUTE:.0f} min)" for name, seconds in early.items())
        yield LOST_ON_CRASH.finding(f"Long tasks acknowledge early: {shown}", early)
