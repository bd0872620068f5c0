"""What `fair status` and `fair top` say of the engine behind the tasks, and of resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery_fair.cli.explain_words import safe
from celery_fair.cli.words import count, duration, percent, plural

WELL = "dim"
ODD = "yellow"


def engine_lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A line and how it looks; none without a probe."""
    engine = report.get("engine") or {}
    if not engine.get("probed"):
        return
    if engine["unknown"]:
        why = f" ({safe(engine['failing'])})" if engine["failing"] else ""
        since = engine["age_seconds"]
        heard = "never" if since is None else f"{duration(since)} ago"
        yield f"the load probe gives no answer{why}; its last one: {heard}", ODD
        return
    if engine["pressure"] is None:  # it has just begun
        return
    detail = f" ({safe(engine['detail'])})" if engine["detail"] else ""
    line = f"engine at {engine['pressure']:.2g} of what is fine{detail}"
    yield (f"{line}: batch gives way", ODD) if engine["queueing"] else (line, WELL)


def clearing_lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What waits in a worker for more than a slot, and what stands in its way."""
    clearing = report.get("clearing") or {}
    if not clearing.get("set"):
        return
    if clearing["away"]:
        away = f"what workers share can't be asked for {duration(clearing['away_seconds'])}"
        yield f"{away}: interactive tasks go on, batch at its share", ODD
    waiting = clearing["waiting"]
    if any(waiting.values()):
        said = ", ".join(f"{count(number)} {kind}" for kind, number in waiting.items() if number)
        yield f"of the backlog, held for a place, a budget or the hook: {said}", WELL
    hook = clearing["hook"]
    if hook["stuck"]:
        yield f"the hook has not answered for {plural(hook['stuck'], 'task')}", ODD


def recording_lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is recorded, and what could not be; nothing of a worker that records nothing."""
    recording = report.get("recording") or {}
    if not recording.get("where"):
        return
    sample = recording["sample"]
    part = "" if sample == 1 else f" {percent(sample)} of"
    line = f"records{part} its tasks into {safe(recording['where'])}"
    if recording["lost"]:
        yield f"{line}: {count(recording['lost'])} could not be written, and are lost", ODD
    else:
        yield line, WELL


def resource_lines(resources: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A line a resource; none where nothing is set."""
    if not resources["set"]:
        return
    if resources["unknown"]:
        heard = resources["age_seconds"]
        if heard is not None:
            yield f"resources can't be asked; last answer {duration(heard)} ago", ODD
        return
    for one in resources["of"]:
        slow = one["rate"] < 1.0 or one["slowed_seconds"] > 0
        yield resource_line(one), ODD if slow or _is_short(one) else WELL
    if resources["left_out"]:
        yield f"and {plural(resources['left_out'], 'resource')} more", WELL


def resource_line(one: Mapping[str, Any]) -> str:
    """``openai: 3 of 8 running (3 batch), 2 wait (2 batch); 4 000 tokens left now``."""
    running, waiting = one["running"], one["waiting"]
    total = sum(running.values())
    of = "" if one["max_running"] is None else f" of {one['max_running']}"
    line = f"{safe(one['name'])}: {total}{of} running{_by_kind(running)}"
    if sum(waiting.values()):
        line += f", {count(sum(waiting.values()))} wait{_by_kind(waiting)}"
    for budget in ("requests", "tokens"):
        left = one[f"{budget}_left"]
        if left is not None:
            line += f"; {count(int(left))} {budget} left now"
    if one["rate"] < 1.0:
        line += f"; slowed to {percent(one['rate'])}"
    if one["slowed_seconds"] > 0:
        line += f"; none for batch for {duration(one['slowed_seconds'])}"
    return line


def _by_kind(numbers: Mapping[str, int]) -> str:
    found = ", ".join(f"{count(number)} {kind}" for kind, number in numbers.items() if number)
    return f" ({found})" if found else ""


def _is_short(one: Mapping[str, Any]) -> bool:
    return any((one[f"{budget}_left"] or 0.0) < 0 for budget in ("requests", "tokens"))
