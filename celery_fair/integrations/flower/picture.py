"""The figures of the page as plain JSON, from facts that anybody may have published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import celery_fair
from celery_fair import KINDS
from celery_fair.integrations.flower.history import STEP_SECONDS
from celery_fair.observe.cluster import Heard
from celery_fair.observe.steering import stops
from celery_fair.observe.total import at_broker, total

SHOWN: Final = 300
"""Workers drawn one by one; the sums are over all."""
CHANGES: Final = 40
QUEUES: Final = 8
TEXT: Final = 200
MOST: Final = 1_000_000
"""Of anything in one worker; more is a joke that the page would have to draw."""

PARTS: Final = ("running", "waiting")
FIGURES: Final = ("requests_left", "tokens_left", "rate", "slowed_seconds")
"""Of a resource."""

WHY_IDLE: Final = {
    "reserve": "kept for the next interactive task, while batch waits",
    "protected": "batch has what it may while the gate protects interactive tasks",
    "engine": "batch has what is left of its share while the engine behind the tasks queues",
    "ceiling": "a kind has all the slots that its ceiling allows",
    "joining": "a worker has just started, and listens to the fleet before it runs batch",
    "paused": "all that waits is of a kind that somebody has paused",
    "asking": "the broker is being asked whether anything interactive comes first",
    "arriving": "what waits is at the broker, or on its way",
}


class Look(NamedTuple):
    """What is known at one moment, so that the picture can be made in another thread.

    ``now`` is on the clock of ``Heard.seen_at``, ``epoch`` the same as epoch seconds.
    """

    now: float
    epoch: float
    workers: Mapping[str, Heard]
    waits: Sequence[tuple[float, float | None, float | None]]
    idle_slots: Mapping[str, float]
    without: Sequence[str]
    heard_seconds_ago: float | None
    unreadable_events: int


def picture(look: Look) -> dict[str, Any]:
    """All figures of the page."""
    drawn: list[dict[str, Any]] = []
    readable: dict[str, Mapping[str, Any]] = {}
    unreadable: list[str] = []
    for name, heard in look.workers.items():
        try:
            one = _worker(name, heard, look.now)
            total({name: heard.facts})
        except Exception:  # another version's facts, or nobody's
            unreadable.append(name[:TEXT])
            continue
        readable[name] = heard.facts
        drawn.append(one)
    made = {
        "now": look.epoch,
        "version": celery_fair.__version__,
        "workers": drawn[:SHOWN],
        "left_out": max(len(drawn) - SHOWN, 0),
        "unreadable": unreadable[:SHOWN],
        "total": _total(readable, drawn),
        "shared": _shared(readable),
        "waits": {"step_seconds": STEP_SECONDS, "points": look.waits},
        "changes": _changes(readable),
        "idle": _idle(look.idle_slots),
        "without": [name[:TEXT] for name in look.without[:SHOWN]],
        "heard_seconds_ago": look.heard_seconds_ago,
        "unreadable_events": look.unreadable_events,
    }
    return finite(made)


def _worker(name: str, heard: Heard, now: float) -> dict[str, Any]:
    facts = heard.facts
    gate, slots, share = facts["gate"], facts["slots"], facts["share"]
    running = {kind: _count(facts["kinds"][kind]["running"]) for kind in KINDS}
    age = now - heard.seen_at
    return {
        "name": name[:TEXT],
        "version": _text(facts["version"]),
        "observing": facts["mode"] == "observe",
        "age_seconds": age,
        "stale": age > 2 * heard.every_seconds + 1,
        "gate": {
            "mode": _text(gate["mode"]),
            "since": float(gate["since"]),
            "reason": "; ".join(map(_text, [*(w for w, _ in stops(facts)), gate["reason"]])),
            "blind": bool(gate["blind"]),
        },
        "slots": {
            **{place: _count(slots[place]) for place in ("total", "reserve", "batch_ceiling")},
            **running,
        },
        "share": {which: _number(share[which]) for which in ("guaranteed", "received")},
        "waits": {kind: _number(facts["kinds"][kind]["wait_seconds"]["p95"]) for kind in KINDS},
        "held": {kind: _count(facts["kinds"][kind]["held"]) for kind in KINDS},
    }


def _total(readable: Mapping[str, Mapping[str, Any]], drawn: list[dict[str, Any]]) -> Any:
    """Slots, share and backlog of all together; ``None`` without a worker."""
    try:
        summed = total(readable)
    except Exception:  # each alone was well, and together they are not: somebody's joke
        return None
    if not drawn:
        return None
    slots = {
        name: sum(one["slots"][name] for one in drawn)
        for name in ("total", "reserve", "batch_ceiling", *KINDS)
    }
    return {
        "workers": len(drawn),
        "gates": {_text(mode): number for mode, number in summed["gates"].items()},
        "slots": slots,
        "share": {name: _number(value) for name, value in summed["share"].items()},
        "last_batch_start": _number(summed["last_batch_start"]),
        "versions": [_text(version) for version in summed["versions"][:QUEUES]],
        "kinds": {kind: _kind(summed["kinds"][kind]) for kind in KINDS},
    }


def _shared(readable: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The engine behind the tasks and resources; ``None`` where nothing of them is set."""
    try:
        summed = total(readable)
        engine, resources = summed["engine"], summed["resources"]
        if not engine["probed"] and not resources["set"]:
            return None
        return {
            "engine": _engine(engine) if engine["probed"] else None,
            "unknown": bool(resources["unknown"]),
            "resources": [_resource(one) for one in resources["of"][:QUEUES]],
        }
    except Exception:  # another version's, or nobody's
        return None


def _engine(engine: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "pressure": _number(engine["pressure"]),
        "detail": _text(engine["detail"]),
        "queueing": bool(engine["queueing"]),
        "failing": _text(engine["failing"]) if engine["unknown"] else None,
    }


def _resource(one: Mapping[str, Any]) -> dict[str, Any]:
    most = one["max_running"]
    return {
        "name": _text(one["name"]),
        "max_running": None if most is None else _count(most),
        **{name: {kind: _count(one[name][kind]) for kind in KINDS} for name in PARTS},
        **{name: _number(one[name]) for name in FIGURES},
    }


def _kind(part: Mapping[str, Any]) -> dict[str, Any]:
    """What waits of one kind, by where it waits; ``None`` where nobody could read the broker."""
    ready = part["ready"] or {}
    queues = sorted(ready.items(), key=lambda item: (-item[1], item[0]))[:QUEUES]
    return {
        "running": part["running"],
        "served": bool(part["queues"]),
        "ready": at_broker(part),
        "held": part["held"],
        "rate_limited": part["rate_limited"],
        "uncleared": part["uncleared"],
        "scheduled": part["scheduled"],
        "backlog": part["backlog"],
        "queues": [(_text(name), number) for name, number in queues],
        "more_queues": max(len(ready) - QUEUES, 0),
    }


def _changes(readable: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The last changes of all gates, newest first."""
    found: list[dict[str, Any]] = [
        {
            "at": float(at),
            "worker": name[:TEXT],
            "mode": _text(mode),
            "cause": _text(cause),
            "reason": _text(reason),
        }
        for name, facts in readable.items()
        for at, mode, cause, reason in _well_formed(facts["gate"].get("history"))
    ]
    return sorted(found, key=lambda change: -change["at"])[:CHANGES]


def _well_formed(changes: Any) -> list[Any]:
    return [
        change
        for change in (changes if isinstance(changes, list) else ())
        if isinstance(change, list)
        and len(change) == 4
        and isinstance(change[0], float | int)
        and 0 <= change[0] < 1e12
    ]


def _idle(slots: Mapping[str, float]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"reason": reason, "slots": idle, "why": WHY_IDLE.get(reason, "")}
        for reason, idle in slots.items()
        if idle >= 0.005
    ]
    return sorted(found, key=lambda one: -one["slots"])


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number <= MOST:
        raise ValueError(f"expected a count, got {value!r}")
    return number


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str:
    return str(value)[:TEXT]


def finite(value: Any) -> Any:
    """The same with ``None`` for NaN and infinities, which JSON in a browser doesn't know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value
