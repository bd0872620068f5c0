"""Figures as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def duration(seconds: float | None) -> str:
    """``4 ms``, ``1.2 s``, ``12 min``, ``3.5 h``, ``2.1 d``; a dash where nothing was measured."""
    if seconds is None:
        return "–"
    if seconds < 0.9995:
        return f"{max(seconds, 0.0) * 1000:.0f} ms"
    for limit, unit, name in ((99.95, 1.0, "s"), (5970, 60.0, "min"), (172_800, 3600.0, "h")):
        if seconds < limit:
            value = seconds / unit
            return f"{value:.1f} {name}" if value < 9.95 else f"{value:.0f} {name}"
    return f"{seconds / 86_400:.1f} d"


def count(number: int | None) -> str:
    """``1 234``, or ``unknown``."""
    return "unknown" if number is None else f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")


def percent(ratio: float | None) -> str:
    """``20 %``, or a dash."""
    return "–" if ratio is None else f"{ratio * 100:.0f} %"


def ago(epoch_seconds: float | None, now: float) -> str:
    """``4 s ago``, or ``never``."""
    return "never" if epoch_seconds is None else f"{duration(now - epoch_seconds)} ago"


def plural(number: int, noun: str) -> str:
    """``1 worker``, ``2 workers``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def gate_reason(gate: Mapping[str, Any]) -> str:
    """Why a gate is as it is; a shut one's figures are of the past, and others stand beside it."""
    return f"when it closed: {gate['reason']}" if gate["mode"] == "protected" else gate["reason"]
