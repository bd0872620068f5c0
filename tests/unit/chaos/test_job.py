"""What a chaos run says of its job's count."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from celery_fair import Failure, Progress
from tests.chaos.job import JobRun
from tests.nodes.journal import Entry

ITEMS = 100
FINISHED = Progress(
    id="job", task="b.job", kind="batch", state="finished with failures", reason=None,
    submitted=ITEMS, total=ITEMS, submitting=False, done=98, failed=2, running=0, rate=None,
    eta=None, chunk_items=1, created_at=0.0, first_at=0.0, last_at=0.0, producer_at=None,
    asked_at=0.0,
)  # fmt: skip


def ran(*numbers):
    return [
        Entry("item", "", "", "", None, 0.0, 1, 1, {"n": number, "job": "job"})
        for number in numbers
    ]


def complaints(progress, failed, entries):
    run = JobRun(None, SimpleNamespace(items=ITEMS))
    run._job = SimpleNamespace(
        failures=lambda start, count: [
            Failure(index, None, error, "", 1, 0.0) for index, error in failed.items()
        ]
    )
    run.progress = progress
    return list(run.complaints(entries)), run.line(entries)


AS_MEANT = {49: "ValueError", 99: "ValueError"}


def test_a_job_whose_items_have_all_run_and_are_counted_once_is_as_it_should_be():
    found, line = complaints(FINISHED, AS_MEANT, ran(*range(ITEMS), 7, 7))
    assert found == []
    assert line == "a job of 100 items = 98 done + 2 failed, 2 run again, 0 chunks lost"


def test_an_item_that_killed_its_worker_often_enough_may_have_failed_too():
    progress = replace(FINISHED, done=97, failed=3, lost=3)
    assert complaints(progress, {**AS_MEANT, 7: "WorkerLost"}, ran(*range(ITEMS)))[0] == []


@pytest.mark.parametrize(
    ("progress", "failed", "entries", "complaint"),
    [
        (replace(FINISHED, state="running"), AS_MEANT, ran(*range(100)), "has not ended"),
        (None, AS_MEANT, ran(*range(100)), "has not ended"),
        (replace(FINISHED, done=99), AS_MEANT, ran(*range(100)), "counts other than 100"),
        (replace(FINISHED, running=1), AS_MEANT, ran(*range(100)), "counts other than 100"),
        (FINISHED, {49: "ValueError", 50: "ValueError"}, ran(*range(100)), "[50, 99]"),
        (FINISHED, AS_MEANT, ran(*range(99)), "never ran: [99]"),
    ],
)
def test_whatever_else_is_wrong(progress, failed, entries, complaint):
    (found,) = complaints(progress, failed, entries)[0]
    assert complaint in found


def test_no_item_fails_as_lost_that_was_not_lost_often_enough():
    progress = replace(FINISHED, done=97, failed=3, lost=2)
    (found,) = complaints(progress, {**AS_MEANT, 7: "WorkerLost"}, ran(*range(ITEMS)))[0]
    assert "1 items have failed as lost with 2 chunks" in found
