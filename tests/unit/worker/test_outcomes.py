"""How a task ended, from what the pools call back with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from billiard.exceptions import Terminated, TimeLimitExceeded, WorkerLostError
from celery.exceptions import Ignore, Reject, Retry
from celery.worker import state

from celery_fair.observe.endings import DROPS, OUTCOMES
from celery_fair.worker.outcomes import outcome_of


def request(revoked=False, cancelled=False, id="id"):
    return SimpleNamespace(_already_revoked=revoked, _already_cancelled=cancelled, id=id)


def info(error):
    try:
        raise error
    except BaseException:
        return ExceptionInfo()


def test_a_task_that_returned_has_succeeded_whatever_it_returned():
    for value in (None, "text", ValueError("returned, not raised"), (1, 2, 3)):
        assert outcome_of((0, value, 0.1), request()) == "succeeded"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("wrong"), "failed"),
        (MemoryError(), "failed"),
        (Retry(), "retried"),
        (Reject("no"), "rejected"),
        (Reject("later", requeue=True), "requeued"),
        (Ignore(), "ignored"),
        (SystemExit(1), "lost"),
    ],
)
def test_what_a_task_raised(error, outcome):
    assert outcome_of((1, info(error), 0.1), request()) == outcome


def test_an_error_that_came_with_its_traceback_is_looked_into():
    returned = SimpleNamespace(exception=ExceptionWithTraceback(Retry(), None))
    assert outcome_of((1, returned, 0.1), request()) == "retried"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (WorkerLostError("killed"), "lost"),
        (TimeLimitExceeded(3), "time_limit"),
        (Terminated(15), "revoked"),
        (OSError("around the task"), "lost"),
    ],
)
def test_what_happened_around_a_task(error, outcome):
    assert outcome_of(info(error), request()) == outcome


def test_what_a_tasks_child_came_to_is_not_the_tasks_own_end():
    """``child.get()`` raises what ended the child, and Celery records a failure."""
    for error in (TimeLimitExceeded(3), WorkerLostError("child"), Terminated(9)):
        assert outcome_of((1, info(error), 0.1), request()) == "failed"


def test_what_had_succeeded_before_was_not_run_again():
    """``worker_deduplicate_successful_tasks``."""
    assert outcome_of((0, None, None), request()) == "ignored"


@pytest.mark.parametrize("odd", [(), (0, "r"), (1, "r"), (1, "r", 1.0, "x"), "text", 0, object()])
def test_whatever_a_pool_returns_has_some_outcome(odd):
    assert outcome_of(odd, request()) in ("lost", "failed")


def test_whose_end_was_asked_for_is_not_lost():
    lost = info(WorkerLostError("killed"))
    assert outcome_of(lost, request(revoked=True)) == "revoked"
    assert outcome_of(lost, request(cancelled=True)) == "cancelled"
    assert outcome_of((0, "ended before the signal", 0.1), request(revoked=True)) == "succeeded"


def test_a_greenlet_that_was_killed_has_no_run_time(monkeypatch):
    """Celery flags the id before it kills, and the request only after."""
    monkeypatch.setattr(state, "revoked", {"by-id"})
    assert outcome_of((False, None, None), request(id="by-id")) == "revoked"
    assert outcome_of((False, None, None), request(id="other")) == "cancelled"


def test_nothing_at_all_is_lost():
    assert outcome_of(None, request()) == "lost"
    assert {"revoked", "expired", "timed_out", "refused", "duplicate"} == set(DROPS)
    assert len(set(OUTCOMES)) == len(OUTCOMES)
