"""``fair explain`` as text for a terminal of 80 columns: the answer first, then why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console

from celery_fair.cli.explain_words import SHORT, safe
from celery_fair.cli.explanation import Explanation
from celery_fair.cli.rows import head, rows_of
from celery_fair.cli.words import ago, count, duration, plural
from celery_fair.observe.endings import YIELDED
from celery_fair.observe.place import Place
from celery_fair.policy.pace import Estimate
from celery_fair.policy.waiting import Reason

TOLD_SECONDS: Final = 0.3
"""A shorter wait is none: it is seen a few times a second."""

MOST_WAITS: Final = 6

THREE_MEANINGS: Final = (
    "it was never sent, or to another broker or app; it ended longer ago than anybody keeps; "
    "or a worker has it that doesn't answer"
)


def show_task(console: Console, found: Explanation, now: float) -> None:
    """The place in one sentence; then reasons, times and an estimate, as far as they are known."""
    style = "bold" if found.is_found else "bold yellow"
    head(console, f"{safe(found.id, 80)} {where(found, now)}", style)
    rows_of(console, rows_of_task(found, now))


def where(found: Explanation, now: float) -> str:
    """The rest of the sentence that begins with the id."""
    task = {name: found.task.get(name) for name in ("at", "delivered_at", "started_at", "of")}
    if found.worker is None and found.place in (Place.ENDED, Place.UNKNOWN):
        return _without_worker(found)
    since, started = task["at"] or task["delivered_at"], task["started_at"]
    held = plural(task["of"] or 0, f"{found.task.get('kind')} task")
    return _PLACES[found.place].format(
        worker=safe(found.worker),
        nth=_nth(found.task.get("nth") or 1),
        held=held,
        queue=safe(found.task.get("queue")),
        outcome=safe(found.task.get("outcome")),
        ago=ago(since, now),
        running="" if started is None else f" for {duration(now - started)}",
    )


_PLACES: Final[Mapping[Place, str]] = {
    Place.RUNNING: "runs on {worker}{running}",
    Place.HELD: "waits in {worker}, {nth} in line of {held} held there",
    Place.RATE_LIMITED: "waits in {worker} for its rate",
    Place.CLEARING: "waits in {worker}, and takes no slot yet",
    Place.SCHEDULED: "waits in {worker} for its time",
    Place.TIMING_OUT: "is being failed in {worker}: it has waited for too long",
    Place.RECEIVED: "waits in {worker}, in Celery's own order",
    Place.BROKER: "waits at the broker, {nth} in line in {queue}",
    Place.UNACKNOWLEDGED: "was given {ago} to a worker that doesn't answer",
    Place.ENDED: "ended on {worker} {ago}: {outcome}",
    Place.DROPPED: "was dropped by {worker} {ago}: {outcome}",
    Place.GIVEN_BACK: "was given back to the broker by {worker} {ago}",
}


def _without_worker(found: Explanation) -> str:
    if found.backend is None:
        return "is not known to anybody"
    at = found.backend["at"]
    when = "" if at is None else f" since {safe(at)}"
    return f"is {safe(found.backend['state'])} in the result backend{when}"


def rows_of_task(found: Explanation, now: float) -> list[tuple[str, str]]:
    """A label and a sentence each."""
    task = found.task
    rows: list[tuple[str, str]] = []
    if task.get("task"):
        named = f"{safe(task['task'])}, {task.get('kind') or 'of a kind that nobody says'}"
        queue = f", by {safe(task['queue'])}" if task.get("queue") else ""
        rows.append(("task", named + queue))
    rows += [("why", wait.text) for wait in found.waits[:MOST_WAITS]]
    rows += _yielded(task)
    rows += _times(task, now)
    rows += _waited(task.get("waited"))
    if found.waits_still:
        rows.append(("starts", starts(found.estimate, found.no_estimate)))
    rows += [
        ("before", f"{ago(one['at'], now)} {one['outcome']}") for one in task.get("before") or ()
    ]
    if not found.is_found:
        rows += [("looked", text) for text in found.looked]
        rows += [("perhaps", text) for text in found.perhaps[:MOST_WAITS]]
        rows.append(("else", THREE_MEANINGS) if found.perhaps else ("maybe", THREE_MEANINGS))
    return rows


def _yielded(task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whether it has given its slot back, and how often: neither an end nor a retry."""
    if task.get("outcome") == YIELDED:
        text = "it gave its slot to interactive tasks; the rest of it waits at the broker"
        return [("yielded", text)]
    times = task.get("yields")
    if not times:
        return []
    return [("yielded", f"{plural(times, 'time')}; it goes on from where it was then")]


def _times(task: Mapping[str, Any], now: float) -> list[tuple[str, str]]:
    said = []
    if task.get("enqueued_at") is not None and task["enqueued_at"] <= now:
        said.append(f"ready {ago(task['enqueued_at'], now)}")
    if task.get("pulled_at") is not None:
        said.append(f"received {ago(task['pulled_at'], now)}")
    if task.get("run_seconds") is not None:
        said.append(f"ran {duration(task['run_seconds'])}")
    if task.get("back_at") is not None:
        said.append(f"the broker gives it out again in {duration(max(task['back_at'] - now, 0))}")
    return [("times", ", ".join(said))] if said else []


def _waited(waited: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """``12.3 s: 9.1 s gate protected (…), 3.2 s no free slot``."""
    if waited is None:
        return []
    if waited["seconds"] < TOLD_SECONDS:
        return [("waited", duration(waited["seconds"]))]
    parts = []
    for word, seconds in waited["by"].items():
        reason = Reason(word) if word in set(Reason) else None
        text = f"{duration(seconds)} {SHORT[reason] if reason else safe(word)}"
        if reason is Reason.GATE_PROTECTED and waited["gate_reason"]:
            text += f" ({waited['gate_reason']})"
        parts.append(text)
    if waited["unknown_seconds"] >= TOLD_SECONDS:
        parts.append(f"{duration(waited['unknown_seconds'])} for what nobody noted")
    running = ""
    if waited["by"]:
        running = (
            f"; meanwhile {waited['running_interactive']:g} interactive and "
            f"{waited['running_batch']:g} batch ran on average"
        )
    return [("waited", f"{duration(waited['seconds'])}: {', '.join(parts)}{running}")]


def starts(found: Estimate | None, unknown: str | None) -> str:
    """``in 36 s to 46 s: 81 before it, 2.0 started a second over the last minute``."""
    if found is None:
        return f"unknown: {unknown}"
    basis = [f"{count(found.before)} before it"]
    if found.counted_rate is not None:
        basis.append(f"{found.counted_rate:.2g} started a second over the last minute")
    if found.possible_rate is not None:
        basis.append(f"{found.possible_rate:.2g} a second by slots and mean run time")
    low, high = duration(found.low_seconds), duration(found.high_seconds)
    when = f"within {high}" if found.low_seconds < 0.05 else f"in {low} to {high}"
    return f"{when}: {', '.join(basis)}"


def _nth(number: int) -> str:
    ending = (
        "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    )
    return f"{count(number)}{ending}"
