"""Run times: constant, uniform, exponential, lognormal, or as they were measured."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from celery_fair.sim.task import Draw

_Z95 = 1.6448536269514722
"""The 95 % quantile of the standard normal distribution."""


def constant(seconds: float) -> Draw:
    """Always the same time."""
    return lambda source: seconds


def uniform(low: float, high: float) -> Draw:
    """Any time between two."""
    return lambda source: source.uniform(low, high)


def exponential(mean: float) -> Draw:
    """Many short times and some long ones."""
    log = math.log
    return lambda source: -mean * log(1.0 - source.random())


def lognormal(median: float, p95: float) -> Draw:
    """Half are shorter than the median, and one in twenty longer than ``p95``: a heavy tail."""
    mu = math.log(median)
    sigma = (math.log(p95) - mu) / _Z95
    return lambda source: math.exp(source.gauss(mu, sigma))


def empirical(values: Sequence[float], weights: Sequence[float] | None = None) -> Draw:
    """One of the values that were measured, each as often as it was seen."""
    known = tuple(values)
    size = len(known)
    if weights is None:
        return lambda source: known[int(source.random() * size)]
    sums = tuple(accumulate(weights))

    def draw(source: random.Random) -> float:
        return known[min(bisect_right(sums, source.random() * sums[-1]), size - 1)]

    return draw
