"""The last tasks by id: bounded, whatever was published."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from celery_fair.observe.endings import RETRIED, REVOKED, SUCCEEDED
from celery_fair.observe.recent import GIVEN_BACK, KEPT, LONGEST, Recent
from celery_fair.observer import TaskInfo
from celery_fair.policy.kinds import BATCH
from celery_fair.worker.counting import Counting
from celery_fair.worker.slots import Slots

NAME = "shop.summarize"


class Request(SimpleNamespace):
    """The part of Celery's request that is kept."""

    task = SimpleNamespace(name=NAME)


def slot(id="an-id", queue="celery.batch"):
    info = {"routing_key": queue} if queue is not None else None
    now = time.monotonic()
    request = Request(id=id, delivery_info=info)
    taken = Slots().take(BATCH, request, now - 2.0, now - 3.0, time.time() - 5.0)
    taken.outcome = SUCCEEDED
    taken.release()
    return taken


@pytest.fixture
def recent():
    return Recent()


def test_a_task_that_ran_is_known_with_its_times(recent):
    recent.ended([slot()])
    (ended,) = recent.of("an-id")
    task = ended.task
    assert (task.kind, task.name, task.queue) == (BATCH, NAME, "celery.batch")
    assert task.outcome == SUCCEEDED
    assert task.wait_seconds == pytest.approx(3.0, abs=0.1)
    assert task.run_seconds == pytest.approx(2.0, abs=0.1)
    assert ended.at == pytest.approx(time.time(), abs=1.0)


def test_one_that_was_dropped_or_given_back_is_known_too(recent):
    recent.dropped(TaskInfo(BATCH, NAME, "gone", outcome=REVOKED))
    recent.given_back(TaskInfo(BATCH, NAME, "back"))
    assert recent.of("gone")[0].task.outcome == REVOKED
    assert recent.of("back")[0].task.outcome == GIVEN_BACK


def test_the_attempts_of_one_id_come_latest_first(recent):
    first, second = slot(), slot()
    first.outcome = RETRIED
    first.finished_at -= 1.0
    recent.ended([first])
    recent.ended([second])
    assert [ended.task.outcome for ended in recent.of("an-id")] == [SUCCEEDED, RETRIED]


def test_it_is_bounded_and_counts_what_it_has_forgotten(recent):
    recent.ended([slot(f"id-{number}") for number in range(KEPT + 7)])
    assert len(recent) == KEPT
    assert recent.forgotten == 7
    assert recent.of("id-6") == []
    assert recent.of("id-7")
    assert recent.last(1)[0].task.id == f"id-{KEPT + 6}"


def test_a_flood_of_drops_washes_nothing_away_that_ran(recent):
    recent.ended([slot()])
    for number in range(2 * KEPT):
        recent.dropped(TaskInfo(BATCH, NAME, f"gone-{number}", outcome=REVOKED))
    assert recent.of("an-id")


@pytest.mark.parametrize(
    ("id", "queue"),
    [
        ("x" * 100_000, "celery"),
        ("an-id", "q" * 100_000),
        (7, "celery"),
        (b"\xff", 7),
        (None, None),
    ],
)
def test_whatever_a_publisher_has_chosen_little_of_it_is_kept(recent, id, queue):
    recent.ended([slot(id, queue), slot("another")])
    ((told, _),) = recent.of(str(id))
    assert len(told.id) <= LONGEST
    assert told.queue is None or len(told.queue) <= LONGEST
    assert recent.of("another")


def test_what_has_ended_is_kept_as_it_is_counted():
    counting = Counting()
    counting.ended.append(slot())
    counting.settle()
    assert counting.recent.of("an-id")
