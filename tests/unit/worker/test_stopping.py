"""What is asked of the pool as a worker stops, and as it only loses its connection."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest
from celery.worker import state

from celery_fair.worker import internals
from celery_fair.worker.hooks import Hooks


@pytest.fixture
def told(monkeypatch):
    """What happens, in order; and the consumer to which it does."""
    events = []
    monkeypatch.setattr(internals, "hear_what_has_begun", lambda *_: events.append("heard"))
    c = MagicMock()
    c.on_close = lambda: events.append("flushed")
    Hooks(c, MagicMock()).install()
    return events, c


@pytest.mark.parametrize(("how", "heard"), [(None, ["heard"]), (False, ["heard"]), (0, [])])
def test_a_warm_stop_hears_what_has_begun_before_the_pool_forgets_it(told, monkeypatch, how, heard):
    """A cold one, of whatever exit code, ends what runs, and leaves the messages to others."""
    events, c = told
    monkeypatch.setattr(state, "should_terminate", how)
    c.blueprint.on_close()
    assert events == [*heard, "flushed"]


def test_a_lost_connection_takes_no_acknowledgement(told):
    events, c = told
    c.on_close()
    assert events == ["flushed"]
