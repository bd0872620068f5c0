"""What a worker does about jobs that something has cut off."""

from __future__ import annotations

import pytest

from celery_fair import Fair, JobNotFound, QueueFull, SettingsError, StateAway, fair_task, job_task
from celery_fair.jobs.calls import publish
from celery_fair.jobs.memory_store import MemoryStore
from celery_fair.jobs.store import Due
from celery_fair.worker import job_keeping
from celery_fair.worker.job_keeping import JobKeeping


class Clock:
    """The store's."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(fair, clock):
    fair.jobs._store = MemoryStore(clock)
    return fair.jobs._store


@pytest.fixture
def task(fair):
    @job_task(name="work")
    def work(n):
        """Do nothing."""

    return work


@pytest.fixture
def look(fair, store):
    keeping = JobKeeping(fair)
    return lambda: keeping.look(store, ["work"])


def test_what_a_dead_worker_had_claimed_is_sent_to_another(fair, store, clock, task, sent, look):
    job = fair.submit_job(task, [1, 2, 3], chunk_items=3)
    (ticket,) = sent()
    store.claim(job.id, ticket.headers["id"], 30.0)
    look()
    assert not sent()
    clock.now += 31
    look()
    again = sent()
    assert again
    assert {one.headers["fair_job"] for one in again} == {job.id}
    assert {one.queue for one in again} == {"celery.batch"}


def test_a_ticket_that_the_broker_has_lost_is_published_again(fair, store, clock, task, sent, look):
    job = fair.submit_job(task, [1])
    (ticket,) = sent()
    clock.now += 61
    look()
    (again,) = sent()
    assert again.headers["fair_ticket"] == ticket.headers["id"] != again.headers["id"]
    task.apply((), task_id=again.headers["id"], headers=again.headers)
    assert job.progress().done == 1


def test_a_callback_that_was_not_published_is_and_then_no_more(
    fair, store, clock, task, sent, look, monkeypatch
):
    @fair.app.task(name="told")
    def told(progress):
        """Do nothing."""

    def refuse(*args, **options):
        raise OSError("no broker")

    with monkeypatch.context() as patch:
        patch.setattr(fair.app, "send_task", refuse)
        job = fair.submit_job(task, [], on_finish=told)
    assert job.progress().state == "finished"
    clock.now += 1000
    look()
    assert [one.task for one in sent()] == ["told"]
    clock.now += 1000
    look()
    assert not sent()


def test_one_that_can_not_be_published_now_is_tried_again(
    fair, store, clock, task, sent, look, monkeypatch
):
    first, second = (fair.submit_job(task, [1]) for _ in range(2))
    sent()
    clock.now += 61

    def full(*args, **options):
        raise QueueFull("batch", 9, 9, 1.0)

    with monkeypatch.context() as patch:
        patch.setattr(fair.app, "send_task", full)
        look()
        look()
    assert not sent()
    look()  # soon, though the store would wait for twice as long
    assert {one.headers["fair_job"] for one in sent()} == {first.id, second.id}
    look()
    assert not sent()


def test_news_of_a_job_overtake_its_chunks_and_what_follows_it_does_not(
    fair, store, clock, task, sent, look
):
    @fair_task(name="tell", kind="batch")  # as one without a kind is inside a chunk
    def tell(progress):
        """Do nothing."""

    calls = {"on_progress": tell, "on_failures": tell, "on_finish": tell}
    job = fair.submit_job(task, [1], max_failures=0, **calls)
    published = []
    for call in ("progress", "failures", "finish"):
        publish(fair, store, store.plan(job.id), [Due(call, 1)])
        published += [one.queue for one in sent() if one.headers["task"] == "tell"]
    assert published == ["celery.batch.front", "celery.batch.front", "celery.batch"]


def test_a_job_that_is_forgotten_keeps_nobody_from_the_others(
    fair, store, clock, task, sent, look, monkeypatch
):
    first, second = (fair.submit_job(task, [1]) for _ in range(2))
    sent()
    clock.now += 61
    plan = store.plan

    def forgotten(id):
        if id == first.id:
            raise JobNotFound(id)
        return plan(id)

    monkeypatch.setattr(store, "plan", forgotten)
    look()
    assert [one.headers["fair_job"] for one in sent()] == [second.id]


def test_it_runs_only_where_there_are_job_tasks_and_a_store(make_app, caplog, monkeypatch):
    def refuse():
        raise SettingsError(["no Redis"])

    app = make_app()
    keeping = JobKeeping(Fair(app))
    keeping.start()
    assert keeping._thread is None

    @job_task(name="work")
    def work(n):
        """Do nothing."""

    monkeypatch.setattr(keeping._fair.jobs, "_make_store", refuse)
    keeping.start()
    assert keeping._thread is None
    assert "jobs are not looked after in this worker" in caplog.text


def test_it_goes_on_whatever_a_look_raises_and_says_so_once(fair, store, task, monkeypatch, caplog):
    monkeypatch.setattr(job_keeping, "SHORTEST_SECONDS", 0.0)
    monkeypatch.setattr(job_keeping, "LONGEST_SECONDS", 0.001)
    keeping = JobKeeping(fair)
    errors = [StateAway(), OSError("x"), OSError("y"), StateAway()]

    def overdue(tasks, limit):
        assert "work" in tasks  # and what other test modules share with all apps
        if errors:
            raise errors.pop()
        keeping._ended.set()
        return []

    monkeypatch.setattr(store, "overdue", overdue)
    keeping.start()
    keeping._thread.join(5)
    assert not keeping._thread.is_alive()
    assert caplog.text.count("jobs can't be looked after") == 1
    keeping.stop()
