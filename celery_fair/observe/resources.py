"""What all workers share, as facts: the same from each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from celery_fair.policy.kinds import KINDS
from celery_fair.resources.store import ResourceView

MOST: Final = 20
"""Resources that are told; a reply must stay small, and each is a label of metrics."""


def resource_facts(
    views: Sequence[ResourceView] | None, age_seconds: float | None, *, is_set: bool
) -> dict[str, Any]:
    """``of`` is empty where nothing is set, and where the store could not be asked lately."""
    shown = sorted(views or (), key=_by_want)[:MOST]
    return {
        "set": is_set,
        "unknown": is_set and views is None,
        "age_seconds": None if age_seconds is None else round(age_seconds, 1),
        "of": [view_facts(view) for view in sorted(shown, key=lambda view: view.name)],
        "left_out": max(len(views or ()) - MOST, 0),
    }


def _by_want(view: ResourceView) -> tuple[int, int, str]:
    """Those that most tasks wait for, or use, come first."""
    return -sum(view.waiting.values()), -sum(view.running.values()), view.name


def view_facts(view: ResourceView) -> dict[str, Any]:
    """Of one resource."""
    return {
        "name": view.name,
        "max_running": view.max_running,
        "running": {kind: view.running.get(kind, 0) for kind in KINDS},
        "waiting": {kind: view.waiting.get(kind, 0) for kind in KINDS},
        "requests_left": _rounded(view.requests_left),
        "tokens_left": _rounded(view.tokens_left),
        "rate": round(view.rate, 4),
        "slowed_seconds": round(view.slowed_seconds, 1),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def newest(reports: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of what several workers tell the youngest look; that of none, if nothing is set."""
    told = [report["resources"] for report in reports.values() if report.get("resources")]
    known = [one for one in told if one["set"] and one["age_seconds"] is not None]
    if known:
        return min(known, key=lambda one: (one["unknown"], one["age_seconds"]))
    return next((one for one in told if one["set"]), resource_facts(None, None, is_set=False))
