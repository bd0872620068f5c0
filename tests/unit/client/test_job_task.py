"""``job_task``: an ordinary task, and one that chunks can be made of."""

from __future__ import annotations

import pytest
from celery import Task
from celery.exceptions import Retry

from celery_fair import BadOption, Fair, NotInstalled, UnknownKind, job_task


@pytest.fixture
def eager(make_app):
    return make_app(task_always_eager=True)


@pytest.fixture
def fair(eager):
    return Fair(eager)


# As any other task


def test_called_as_any_other_task_it_runs_that_call(fair):
    @job_task
    def double(n, times=2):
        return times * n

    assert double(4) == 8
    assert double.delay(4).get() == 8
    assert double.apply_async((4,), {"times": 3}).get() == 12


def test_it_is_a_batch_task_that_acknowledges_late(fair):
    @job_task(name="half", rate_limit="5/s", bind=True)
    def half(self, n):
        return n / 2

    assert fair.kind_of_task("half") == "batch"
    assert half.acks_late is half.reject_on_worker_lost is True
    assert half.rate_limit == "5/s"
    assert half.delay(4).get() == 2


def test_what_its_decorator_says_wins(fair):
    @job_task(kind="interactive", acks_late=False)
    def quick(n):
        """Do it."""

    assert fair.kind_of_task(quick.name) == "interactive"
    assert quick.acks_late is False


def test_a_kind_or_a_way_that_is_none_is_refused():
    with pytest.raises(UnknownKind):
        job_task(kind="slow")
    with pytest.raises(BadOption, match="expected 'item' or 'chunk', got 'list'"):
        job_task(by="list")


def test_it_sees_its_request_and_retries_as_any_other_task(fair):
    seen = []

    @job_task(bind=True, max_retries=2, default_retry_delay=0)
    def stubborn(self, n):
        seen.append((self.request.id, self.request.retries))
        if self.request.retries < 2:
            raise self.retry()
        return n

    assert stubborn.apply_async((3,), task_id="mine").get() == 3
    assert seen == [("mine", 0), ("mine", 1), ("mine", 2)]


def test_the_call_of_a_teams_own_base_class_goes_around_each_run(fair):
    class Session(Task):
        def __call__(self, *args, **kwargs):
            return ["in a session", self.run(*args, **kwargs)]

    @job_task(base=Session)
    def one(n):
        return n

    assert one.delay(4).get() == ["in a session", 4]
    assert one(4) == ["in a session", 4]
    assert fair.submit_job(one, [5], results=True).results() == {0: ["in a session", 5]}


def test_without_a_fair_it_still_is_a_task(make_app):
    make_app(task_always_eager=True)

    @job_task
    def double(n):
        return 2 * n

    assert double.delay(4).get() == 8


def test_a_chunk_without_a_fair_says_what_is_missing(make_app):
    app = make_app(task_always_eager=True)

    @job_task(shared=False)
    def double(n):
        return 2 * n

    found = app.tasks[double.name].apply((), headers={"fair_job": "j1"})
    assert isinstance(found.result, NotInstalled)


# In a chunk


def test_an_item_may_call_its_own_task_as_a_function(fair):
    @job_task
    def factorial(n):
        return n * factorial(n - 1) if n else 1

    assert fair.submit_job(factorial, [5], results=True).results() == {0: 120}


def test_a_retry_in_a_chunk_fails_the_item_with_its_reason(fair, eager):
    @job_task(bind=True, autoretry_for=(KeyError,))
    def picky(self, n):
        if n == 1:
            {}["no such key"]
        if n == 2:
            raise self.retry(exc=OSError("away"))
        if n == 3:
            try:
                int("x")
            except ValueError:
                self.retry(countdown=5)
        if n == 4:
            raise Retry("by hand", LookupError("lost"))
        if n == 5:
            self.retry()

    job = fair.submit_job(picky, range(7))
    assert [(failure.index, failure.error) for failure in job.failures()] == [
        (1, "KeyError"),
        (2, "OSError"),
        (3, "ValueError"),
        (4, "LookupError"),
        (5, "Retry"),
    ]
    assert job.progress().done == 2
