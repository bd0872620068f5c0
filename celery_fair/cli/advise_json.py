"""Advice as JSON values; what can't be told is null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from celery_fair.advise.advice import Advice
from celery_fair.advise.verdict import Verdict, limit_of
from celery_fair.sim.experiment import Band


def as_json(found: Advice, plan: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known."""
    return {
        "plan": plan,
        "targets": [{"name": one.name, "limit": limit_of(one)} for one in found.targets],
        "first_guess": _clean(asdict(found.needs)),
        "cut_short": found.unsure,
        "looked_at": found.cut or None,
        "runs": found.runs,
        "today": _verdict(found.today),
        "advice": _verdict(found.best),
        "nearest": _verdict(found.nearest),
        "with_pieces": _verdict(found.with_pieces),
        "with_more_slots": _verdict(found.with_more),
        "curve": [_verdict(one) for one in found.curve],
        "curve_today": [_verdict(one) for one in found.curve_today],
    }


def _verdict(found: Verdict | None) -> dict[str, Any] | None:
    if found is None:
        return None
    candidate = found.candidate
    return {
        "slots": candidate.slots,
        "settings": {
            "reserve": candidate.settings.reserve,
            "batch_share": candidate.settings.batch_share,
        },
        "yields_every": candidate.yields_every or None,
        "state": found.state,
        "seeds": found.seeds,
        "targets": {
            one.target.name: {**_band(one.value), "state": one.state} for one in found.readings
        },
        "batch_per_second": _band(found.batch_rate),
    }


def _band(band: Band) -> dict[str, Any]:
    return {"mean": _clean(band.mean), "spread": _clean(band.spread)}


def _clean(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return {key: _clean(one) for key, one in value.items()} if isinstance(value, dict) else value
