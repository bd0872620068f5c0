"""What was ordered, in a worker's facts: under their key ``steering``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import celery_fair
from celery_fair.observe.brevity import short_settings
from celery_fair.settings import LIVE

if TYPE_CHECKING:
    from celery_fair.steering import Pause
    from celery_fair.worker.steering import Steering

PAUSED_BYTES: Final = 600
"""For the queues that are paused; the kinds come first, and always fit."""
RECENT_BYTES: Final = 700
"""For what has changed of late; the newest come first."""
BY: Final = 60
"""Characters of who has ordered it."""


def steering_facts(steering: Steering) -> dict[str, Any]:
    """What is in force by orders, since when, and by whom; times are epoch seconds.

    ``not_in_force`` is why pauses and drains change nothing here. ``draining`` is ``None``, or what
    a drain still waits for. A worker that another has told its orders has the same ``version``.
    """
    paused = [_pause(pause) for pause in sorted(steering.ongoing, key=_kinds_first)]
    told = _fitting(paused, PAUSED_BYTES)
    live = steering.live
    return {
        "version": str(steering.orders.version),
        "orders": len(steering.orders),
        "paused": told,
        "paused_left_out": len(paused) - len(told),
        "settings": {
            name: {
                "value": order.value,
                "by": order.by[:BY],
                "at": order.at,
                "keep": order.keep,
            }
            for name, order in sorted(live.orders.items())
            if order.on
        },
        "refused": dict(live.refused),
        "draining": _drain(steering),
        "not_in_force": steering.not_in_force,
        "recent": _fitting(
            [
                {**change._asdict(), "by": change.by[:BY]}
                for change in reversed(list(steering.recent))
            ],
            RECENT_BYTES,
        ),
    }


def stops(facts: Mapping[str, Any]) -> list[tuple[str, float]]:
    """What a worker doesn't do by an order, in words, and since when; of a worker's facts."""
    steering = facts.get("steering") or {}
    found = []
    if steering.get("not_in_force"):
        return []
    draining = steering.get("draining")
    if draining is not None:
        word = "drained" if draining["done"] else "draining"
        found.append((f"{word} by {draining['by']}", draining["at"]))
    for pause in steering.get("paused", ()):
        what = pause["kind"] if pause["queue"] is None else f"{pause['kind']} from {pause['queue']}"
        found.append((f"{what} paused by {pause['by']}", pause["at"]))
    if left_out := steering.get("paused_left_out"):
        found.append((f"{left_out} more queues paused", found[-1][1]))
    return found


def settings_facts(steering: Steering) -> dict[str, Any]:
    """What was set, but for secrets: each value with its source, and with who has set it live."""
    settings, live = steering.live.settings, steering.live
    shown = short_settings(settings.shown())
    for name, order in live.orders.items():
        if order.on:  # also where it happens to be the default
            shown.setdefault(name, order.value)
    told: dict[str, Any] = {}
    for name, value in shown.items():
        told[name] = {"value": value, "source": settings.source(name)}
        if settings.source(name) == LIVE:
            order = live.orders[name]
            told[name] |= {"by": order.by[:BY], "at": order.at, "keep": order.keep}
    return {
        "version": celery_fair.__version__,
        "settings": told,
        "refused": dict(live.refused),
        "orders": str(steering.orders.version),
    }


def _pause(pause: Pause) -> dict[str, Any]:
    return {"kind": pause.kind, "queue": pause.queue, "by": pause.by[:BY], "at": pause.began}


def _kinds_first(pause: Pause) -> tuple[bool, str, str]:
    return pause.queue is not None, pause.kind, pause.queue or ""


def _drain(steering: Steering) -> dict[str, Any] | None:
    order = steering.drain
    if order is None:
        return None
    return {"by": order.by[:BY], "at": order.at, **steering.left()}


def _fitting(found: Iterable[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """The first that fit into so many bytes, two at least."""
    kept: list[dict[str, Any]] = []
    for one in found:
        limit -= len(json.dumps(one))
        if limit < 0 and len(kept) >= 2:
            break
        kept.append(one)
    return kept
