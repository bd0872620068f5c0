"""Quantiles of waits, some of which had not ended when one stopped looking. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import ceil
from typing import Any, Final

from celery_fair.observe.counts import BOUNDS, quantile

QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def of_durations(ended: Iterable[float], unended: Iterable[float] = ()) -> dict[str, Any]:
    """Quantiles in seconds (nearest rank), and which of them are only lower bounds.

    ``unended`` are the ages of those that still waited at the end. To leave them out would make
    the worst set-up look the best, since there the long waits never end. A quantile of all, with
    those ages, is never above the true one; it is the true one if nothing unended is below it.
    """
    known, ages = sorted(ended), sorted(unended)
    every = sorted([*known, *ages])
    found: dict[str, Any] = {"count": len(every), "at_least": []}
    for name, q in QUANTILES.items():
        found[name] = value = every[max(ceil(q * len(every)), 1) - 1] if every else None
        if ages and value is not None and (ages[0] < value or value not in known):
            found["at_least"].append(name)
    return found


def of_buckets(counts: Sequence[int]) -> dict[str, Any]:
    """Quantiles of a histogram over `BOUNDS`; the last bucket has only a lower end."""
    found: dict[str, Any] = {"count": sum(counts), "at_least": []}
    for name, q in QUANTILES.items():
        found[name] = quantile(counts, q)
        if sum(counts) and q * sum(counts) > [*accumulate(counts)][len(BOUNDS) - 1]:
            found["at_least"].append(name)
    return found
