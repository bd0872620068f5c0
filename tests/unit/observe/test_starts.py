"""Starts a second over the last minute, from a sample every few seconds."""

from __future__ import annotations

import pytest

from celery_fair.observe.starts import EVERY_SECONDS, Starts
from celery_fair.policy.kinds import BATCH, INTERACTIVE


def counts(batch, interactive=0):
    return {BATCH: batch, INTERACTIVE: interactive}


def test_at_the_very_beginning_nothing_is_known():
    starts = Starts()
    assert starts.rate(BATCH, 0, 0.0) is None
    starts.tick(counts(0), 0.0)
    assert starts.rate(BATCH, 9, EVERY_SECONDS - 0.1) is None


def test_until_a_minute_has_passed_it_is_over_the_time_there_is():
    starts = Starts()
    starts.tick(counts(0), 0.0)
    assert starts.rate(BATCH, 20, 10.0) == (2.0, 10.0)
    assert starts.rate(INTERACTIVE, 0, 10.0) == (0.0, 10.0)


def test_after_that_it_is_over_the_last_minute():
    starts = Starts()
    for tenth in range(3000):
        now = tenth / 10
        starts.tick(counts(int(now) if now < 200 else 200 + int(3 * (now - 200))), now)
    rate, seconds = starts.rate(BATCH, 500, 300.0)
    assert rate == pytest.approx(3.0, abs=0.1)
    assert 60.0 <= seconds <= 66.0
