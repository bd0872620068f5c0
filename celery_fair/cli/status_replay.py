"""What `fair status` says of a replay: what celery-fair would have made of an observed load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from celery_fair.cli.explain_words import safe
from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import ask
from celery_fair.cli.words import count, duration, percent, plural
from celery_fair.observe.counterfactual import SMALL_SECONDS, Counterfactual, KindReplay
from celery_fair.observe.gathering import replay
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS

WELL, ODD = "", "yellow"


def replayed(
    app: Any, answers: Answers, most_tasks: int, timeout_seconds: float
) -> Counterfactual | None:
    """Ask the workers for what they saw, and replay it; ``None`` where none observes."""

    def asked(nodes: Sequence[str], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        return ask(
            app,
            "fair_observed",
            timeout_seconds=max(timeout_seconds, 5.0),
            destination=list(nodes),
            limit=len(nodes),
            arguments=arguments,
        )

    return replay(answers.reports, answers.silent, asked, most_tasks)


def replay_lines(found: Counterfactual) -> Iterator[tuple[str, str]]:
    """Each sentence and how it looks."""
    if found.why is not None:
        yield f"no replay: {safe(found.why)}", ODD
        return
    assert found.of is not None
    tasks, slots = count(found.tasks), plural(found.slots, "slot")
    yield (
        f"the last {duration(found.seconds)}, {tasks} tasks on {slots}, replayed with celery-fair",
        "dim",
    )
    for kind in KINDS:
        yield from _kind_lines(kind, found.of[kind])
    if found.left_out:
        yield f"not replayed: {', '.join(map(safe, found.left_out))}", "dim"


def _kind_lines(kind: str, part: KindReplay) -> Iterator[tuple[str, str]]:
    if part.measured is None:
        yield f"{kind}: no figure: {part.why}", ODD
        return
    measured = part.measured["p95"]
    said = f"{kind} p95 wait was {duration(measured)}"
    if part.would_be is None:
        yield f"{said}; no figure: {part.why}", ODD
        return
    said += f" and would have been {duration(part.would_be['p95'])}"
    if kind == BATCH and part.later_mean is not None and part.later_last is not None:
        said += f"; the last would have ended {_later(part.later_last)}"
        said += f", on average {_later(part.later_mean)}"
    yield f"{said} ({_error(part)})", WELL if kind != INTERACTIVE else "bold"


def _error(part: KindReplay) -> str:
    """How far the replay of plain Celery is off."""
    assert part.measured is not None
    assert part.replayed is not None
    if part.measured["p95"] <= SMALL_SECONDS:
        off = abs(part.measured["p95"] - part.replayed["p95"])
        return f"plain Celery replayed: off by {duration(off)}"
    return f"plain Celery replayed: off by {percent(part.error)}"


def _later(seconds: float) -> str:
    if abs(seconds) < 0.05:
        return "at the same time"
    return f"{duration(abs(seconds))} {'later' if seconds > 0 else 'earlier'}"
