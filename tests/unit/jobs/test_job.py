"""The handle of a job: what it asks of the store, and for how long it waits."""

from __future__ import annotations

import threading

import pytest

from celery_fair.errors import JobNotFound, StateAway
from celery_fair.jobs import job as job_module
from celery_fair.jobs.job import Job
from celery_fair.jobs.memory_store import MemoryStore
from celery_fair.jobs.progress import FINISHED, PAUSED
from celery_fair.jobs.store import Report
from tests.unit.jobs.kept import keep, work


class Jobs:
    """A store, and what was started."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.started: list[str] = []

    def start(self, id: str) -> None:
        self.started.append(id)


@pytest.fixture
def jobs():
    return Jobs()


@pytest.fixture
def job(jobs):
    keep(jobs.store, "j", 4, chunk_items=4, results=True)
    return Job(jobs, "j")


class Away:
    """A store that can't be asked, so many times."""

    def __init__(self, store, times: float) -> None:
        self.store, self.times = store, times

    def progress(self, job: str):
        self.times -= 1
        if self.times >= 0:
            raise StateAway
        return self.store.progress(job)


def test_a_handle_asks_nothing_until_it_is_asked(jobs):
    unknown = Job(jobs, "x")
    assert repr(unknown) == "<Job x>"
    assert unknown == Job(jobs, "x")
    assert len({unknown, Job(jobs, "x"), Job(jobs, "y")}) == 2
    with pytest.raises(JobNotFound):
        unknown.progress()
    with pytest.raises(JobNotFound):
        unknown.wait(1.0)


def test_who_resumes_or_retries_also_publishes(jobs, job):
    assert job.pause("by ops@host")
    assert job.progress().reason == "by ops@host"
    assert job.resume()
    assert jobs.started == ["j"]
    work(jobs.store, "j", 4, failing=2)
    assert [one.index for one in job.failures()] == [0, 1]
    assert job.retry_failed() == 2
    assert jobs.started == ["j", "j"]


def test_nothing_is_published_for_a_job_that_has_ended_or_not_failed(jobs, job):
    assert job.retry_failed() == 0
    assert job.cancel()
    assert not job.resume()
    assert not job.pause()
    assert jobs.started == []
    job.forget()
    with pytest.raises(JobNotFound):
        job.progress()


def test_results_are_what_the_items_returned(jobs, job):
    jobs.store.grant("j", ["t"])
    claim = jobs.store.claim("j", "t", 30.0)
    results = {0: '{"pages": 3}', 1: "null"}
    jobs.store.report(claim, Report(0, 4, results=results), size=4, ends=True)
    assert job.results() == {0: {"pages": 3}, 1: None}


def test_waiting_ends_with_the_job(jobs, job):
    ends = threading.Timer(0.1, work, (jobs.store, "j", 4))
    ends.start()
    assert job.wait(10.0).state == FINISHED
    ends.join()


def test_waiting_for_too_long_says_how_far_it_is(job):
    job.pause()
    with pytest.raises(
        TimeoutError, match=r"has not ended within 0.01 s: it is paused, and 0 of 4"
    ):
        job.wait(0.01)
    assert job.progress().state == PAUSED


def test_waiting_survives_a_blip_of_the_store(jobs, job):
    work(jobs.store, "j", 4)
    jobs.store = Away(jobs.store, times=3)
    assert job.wait(10.0).state == FINISHED


def test_waiting_gives_up_when_the_store_stays_away(jobs, job, monkeypatch):
    jobs.store = Away(jobs.store, times=float("inf"))
    with pytest.raises(TimeoutError, match="as far as is known: the state's Redis can't be asked"):
        job.wait(0.01)
    monkeypatch.setattr(job_module, "OUTAGE_SECONDS", 0.0)
    with pytest.raises(StateAway):
        job.wait()


def test_who_submitted_waits_for_the_producer_and_others_for_the_store(jobs):
    waited = []

    class Producer:
        def wait(self, timeout=None):
            waited.append(timeout)

    keep(jobs.store, "open", 4, close=False)
    assert Job(jobs, "open", Producer()).wait_submitted(3.0).submitting
    assert waited == [3.0]
    with pytest.raises(TimeoutError, match=r"has not been submitted within 0\.01 s"):
        Job(jobs, "open").wait_submitted(0.01)
    jobs.store.close("open", 4)
    assert not Job(jobs, "open").wait_submitted(1.0).submitting
