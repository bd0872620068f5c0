"""What a test knows of its tasks: how many of each kind wait, run and have run."""

from __future__ import annotations

import pytest

from celery_fair.observe.endings import REQUEUED, RETRIED, SUCCEEDED, YIELDED
from celery_fair.testing.journal import Journal

TOLD = {
    "id": "1",
    "kind": "batch",
    "name": "summarize",
    "enqueued_at": 1.0,
    "started_at": 2.0,
    "finished_at": 3.0,
    "outcome": None,
}


@pytest.fixture
def journal() -> Journal:
    """One task, published and running."""
    journal = Journal()
    journal.take("queued", TOLD)
    journal.take("dispatched", TOLD)
    return journal


@pytest.mark.parametrize("outcome", [YIELDED, REQUEUED])
def test_what_goes_on_waits_again(journal, outcome):
    journal.take("finished", {**TOLD, "outcome": outcome})
    assert (journal.running(), journal.waiting["batch"]) == (0, 1)
    assert not journal.stories["1"].is_over


def test_a_retry_waits_once_though_it_is_published_anew(journal):
    journal.take("queued", TOLD)
    journal.take("finished", {**TOLD, "outcome": RETRIED})
    assert (journal.running(), journal.waiting["batch"]) == (0, 1)
    assert not journal.stories["1"].is_over


def test_what_has_succeeded_is_over(journal):
    journal.take("finished", {**TOLD, "outcome": SUCCEEDED})
    assert (journal.running(), journal.waiting["batch"]) == (0, 0)
    assert journal.stories["1"].is_over
