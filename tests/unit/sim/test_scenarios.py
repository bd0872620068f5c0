"""The figures that the project promises on its mixed loads, in virtual time over eight seeds."""

from __future__ import annotations

import math
from functools import cache

import pytest

from celery_fair.policy import BATCH, INTERACTIVE, PolicySettings
from celery_fair.sim import run
from celery_fair.sim.stock import SCENARIOS

SEEDS = range(1, 9)


@cache
def results(name, reserve):
    return [run(SCENARIOS[name], PolicySettings(reserve=reserve), seed) for seed in SEEDS]


def p95(name, reserve):
    waits = sorted(w for result in results(name, reserve) for w in result.waits(INTERACTIVE))
    return waits[math.ceil(0.95 * len(waits)) - 1]


def batch_rate(name, reserve):
    return sum(result.rate() for result in results(name, reserve)) / len(SEEDS)


@pytest.mark.parametrize(
    ("name", "reserve", "most_wait", "least_batch"),
    [
        ("steady", "auto", 0.040, 0.95 * 3.40),
        ("steady", 1, 0.040, 0.95 * 3.40),
        ("monoliths", "auto", 0.044, 0.55),
        ("monoliths", 1, 0.044, 0.66),
        ("bursts", "auto", 0.77 * 1.15, 0.95 * 3.30),
        ("llm", "auto", 1.0, 0.24),
        ("llm", 2, 2.5, 0.40),
        ("flood", "auto", 2 * 6.5, 0.7),
    ],
)
def test_waits_and_throughput(name, reserve, most_wait, least_batch):
    assert p95(name, reserve) <= most_wait
    assert batch_rate(name, reserve) >= least_batch


def test_article_ends_soon():
    runs = results("article", "auto")
    ends = [max(task.finished for task in result.of(BATCH)) for result in runs]
    assert p95("article", "auto") <= 2.37
    assert sum(60 / end for end in ends) / len(ends) >= 0.8 * 2.41


def test_flood_leaves_batch_its_share_without_long_gaps():
    for result in results("flood", "auto"):
        assert result.slot_seconds(BATCH) >= 0.2 * 8 * 10 - 2 * 2.5
        assert result.longest_gap() <= 3 * 2.0
