"""What waits in a worker until it is cleared, and what it has been granted, as facts."""

from __future__ import annotations

from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from celery_fair.policy.kinds import KINDS

if TYPE_CHECKING:
    from celery_fair.worker.clearing.hooking import Hooking
    from celery_fair.worker.scheduler import Scheduler

ANSWERS: Final = ("admitted", "delayed", "rerouted", "refused", "failed")
"""What a hook's answers are counted as; ``failed`` beside what was done instead."""

RETURNS: Final = ("idle", "stale")
"""Why a place was given back unused: it found no slot, or was not renewed in time."""

MOST: Final = 32
"""Names of resources in the facts, those with most places: an event must stay small."""


def clearing_facts(scheduler: Scheduler) -> dict[str, Any]:
    """All at nought where no task uses what workers share, nor a hook is set."""
    clearing = scheduler.clearing
    keeper = None if clearing is None else clearing.keeper
    away_since = None if keeper is None else keeper.away_since
    places = Counter[str]() if clearing is None else clearing.places.by_resource()
    return {
        "set": clearing is not None,
        "waiting": {**dict.fromkeys(KINDS, 0), **scheduler.dispatcher.uncleared()},
        "places": dict(places.most_common(MOST)),
        "away": away_since is not None,
        "away_seconds": None if away_since is None else round(monotonic() - away_since, 1),
        "outages": 0 if keeper is None else keeper.outages,
        "lost": 0 if keeper is None else keeper.lost,
        "returned": {
            reason: 0 if clearing is None else getattr(clearing, reason) for reason in RETURNS
        },
        "hook": _hook(None if clearing is None else clearing.hooking),
    }


def _hook(hooking: Hooking | None) -> dict[str, Any]:
    if hooking is None:
        return {"set": False, "answers": dict.fromkeys(ANSWERS, 0), "stuck": 0, "delayed": 0}
    return {
        "set": True,
        "answers": dict(hooking.counts),
        "stuck": hooking.stuck,
        "delayed": hooking.delayed,
    }
