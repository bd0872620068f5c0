"""One chunk, and whatever may go wrong in it."""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import contextmanager

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from celery import Celery
from celery.exceptions import Ignore, Reject, WorkerShutdown
from gevent import GreenletExit, Timeout

from celery_fair import Fair, RateLimited, StateAway
from celery_fair.jobs import running
from celery_fair.jobs import task as job_tasks
from celery_fair.jobs.leases import leases


@pytest.fixture
def app():
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.task_always_eager = True
    yield app
    app.close()


@pytest.fixture
def fair(app):
    fair = Fair(app)
    yield fair
    fair.uninstall()


@pytest.fixture
def store(fair):
    return fair.jobs.store


@pytest.fixture
def make(app):
    """``make(function)``: a job task of this app alone."""

    def make(function, *, by="item", **options):
        def work(*items):
            return function(*items)

        ours = {
            "fair_job_by": by,
            "fair_kind": "batch",
            "__call__": job_tasks._call,
            "retry": job_tasks._retry,
        }
        return app.task(name="work", shared=False, **ours, **options)(work)

    return make


def outcome(job):
    progress = job.progress()
    return progress.done, progress.failed


def failures(job):
    return [(failure.index, failure.error) for failure in job.failures()]


# Items that fail


def test_an_item_that_fails_fails_alone(fair, make):
    def work(n):
        if n % 3 == 0:
            raise ValueError(n)

    job = fair.submit_job(make(work), range(10))
    assert outcome(job) == (6, 4)
    assert failures(job) == [(n, "ValueError") for n in (0, 3, 6, 9)]


def test_one_that_asks_to_be_ignored_is_done_and_a_rejected_one_has_failed(fair, make):
    def work(n):
        raise (Ignore if n else Reject)("as asked")

    job = fair.submit_job(make(work), [0, 1], results=True)
    assert outcome(job) == (1, 1)
    assert failures(job) == [(0, "Reject")]
    assert job.results() == {}


@pytest.mark.parametrize("error", [SystemExit(3), CancelledError(), Timeout(2)])
def test_one_that_exits_ends_neither_its_chunk_nor_its_worker(fair, make, error):
    def work(n):
        if n == 1:
            raise error

    job = fair.submit_job(make(work), range(3))
    assert outcome(job) == (2, 1)
    assert failures(job) == [(1, type(error).__name__)]


def test_an_error_that_cannot_be_told_is_told_without_words(fair, make):
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError

    def work(n):
        raise MuteError

    job = fair.submit_job(make(work), [1])
    (failure,) = job.failures()
    assert (failure.error, failure.message) == ("MuteError", "")


def test_only_the_first_of_a_chunk_is_logged_and_never_its_item(fair, make, caplog):
    def work(n):
        raise ValueError("as asked")

    fair.submit_job(make(work), ["4711"] * 4, chunk_items=4)
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "item 0 of job" in record.getMessage()
    assert "4711" not in caplog.text


# Results


def test_a_result_that_cannot_be_kept_fails_its_item(fair, make):
    def work(n):
        return [object(), "x" * 70_000, n][n]

    job = fair.submit_job(make(work), range(3), results=True)
    assert failures(job) == [(0, "BadOption"), (1, "ResultTooLarge")]
    assert job.results() == {2: 2}


def test_without_results_an_item_may_return_what_it_likes(fair, make):
    assert outcome(fair.submit_job(make(lambda n: object()), range(3))) == (3, 0)


# Lists


def test_a_list_that_fails_is_halved_until_the_poison_is_alone(fair, make):
    calls = []

    def work(ns):
        calls.append(ns)
        if 5 in ns:
            raise ValueError("poison")
        return [n + 1 for n in ns]

    job = fair.submit_job(make(work, by="chunk"), range(8), chunk_items=8, results=True)
    assert calls == [list(range(8)), [0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [4], [5], [6, 7]]
    assert failures(job) == [(5, "ValueError")]
    assert job.results() == {n: n + 1 for n in range(8) if n != 5}


def test_a_list_that_fails_after_long_is_not_tried_as_a_whole_again(fair, make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(running, "monotonic", lambda: now[0])
    monkeypatch.setattr("celery_fair.jobs.working.monotonic", lambda: now[0])
    calls = []

    def work(ns):
        calls.append(ns)
        if 10 in ns and len(calls) < 30:
            now[0] += 5.0
            raise TimeoutError

    job = fair.submit_job(make(work, by="chunk"), range(20), backlog=1)
    assert failures(job) == [(10, "TimeoutError")]
    assert outcome(job) == (19, 1)


def test_a_list_with_other_than_a_result_an_item_has_failed(fair, make):
    job = fair.submit_job(make(lambda ns: ns[1:], by="chunk"), range(4), results=True)
    assert outcome(job) == (0, 4)
    assert "a list of" in job.failures()[0].message


# Limits and ends


def test_a_soft_limit_that_meets_a_later_item_leaves_it_to_the_next_chunk(fair, make):
    seen = []

    def work(n):
        seen.append(n)
        if n == 2 and seen.count(2) == 1:
            raise SoftTimeLimitExceeded

    job = fair.submit_job(make(work), range(4), chunk_items=4)
    assert outcome(job) == (4, 0)
    assert seen == [0, 1, 2, 2, 3]


def test_a_soft_limit_that_an_item_meets_alone_fails_it(fair, make):
    seen = []

    def work(n):
        seen.append(n)
        if n == 1:
            raise SoftTimeLimitExceeded

    job = fair.submit_job(make(work), range(3), chunk_items=3)
    assert failures(job) == [(1, "SoftTimeLimitExceeded")]
    assert seen == [0, 1, 1, 2]


def test_a_list_that_takes_too_long_is_tried_in_shorter_ones(fair, make):
    calls = []

    def work(ns):
        calls.append(len(ns))
        if len(ns) > 4:
            raise SoftTimeLimitExceeded

    job = fair.submit_job(make(work, by="chunk"), range(30), backlog=1)
    assert outcome(job) == (30, 0)
    assert calls[:5] == [1, 2, 4, 8, 4]


def test_an_item_that_is_refused_leaves_the_rest_to_the_next_chunk(fair, make, monkeypatch):
    seen, told = [], []
    monkeypatch.setattr(fair.resources.charging, "slow_down", lambda *said: told.append(said))

    def work(n):
        seen.append(n)
        if n == 2 or (n == 1 and seen.count(1) == 1):
            raise RateLimited(7, "openai")

    job = fair.submit_job(make(work), range(3), chunk_items=3)
    assert seen == [0, 1, 1, 2, 2]
    assert failures(job) == [(2, "RateLimited")], "the first of a chunk, or it would never end"
    assert told == [("openai", 7.0)] * 3


def test_a_list_that_is_refused_is_not_halved_at_once(fair, make):
    calls = []

    def work(ns):
        calls.append(len(ns))
        if len(ns) == 8 or (len(ns) == 4 and calls.count(4) == 2):
            raise RateLimited

    job = fair.submit_job(make(work, by="chunk"), range(30), backlog=1)
    assert outcome(job) == (30, 0)
    assert calls[:7] == [1, 2, 4, 8, 4, 2, 4]


def test_a_list_of_a_fixed_length_that_takes_too_long_has_failed(fair, make):
    def work(ns):
        raise SoftTimeLimitExceeded

    job = fair.submit_job(make(work, by="chunk"), range(8), chunk_items=4)
    assert outcome(job) == (0, 8)


@pytest.mark.parametrize("end", [WorkerShutdown(0), GreenletExit(), KeyboardInterrupt()])
def test_a_worker_that_ends_is_told_of_what_is_done_and_the_rest_is_for_others(
    fair, make, store, monkeypatch, end
):
    def work(n):
        if n == 2:
            raise end

    monkeypatch.setattr(fair.jobs, "_run_eager", lambda *_: None)
    job = fair.submit_job(make(work), range(4), chunk_items=4, backlog=1)
    task, options = fair.jobs.eager.popleft()
    with pytest.raises(type(end)):
        task.apply((), {}, throw=True, **options)
    assert outcome(job) == (2, 0)
    assert len(fair.jobs.eager) == 1  # its next ticket
    assert store.claim(job.id, fair.jobs.eager[0][1]["task_id"], 30).indices[0] == 2


@pytest.mark.parametrize("error", [SystemExit(-241), ValueError("made of it")])
def test_a_process_that_is_killed_fails_no_item_and_what_ran_is_lost(
    fair, make, monkeypatch, error
):
    from billiard import common

    def work(n):
        if n == 2:
            monkeypatch.setattr(common, "_should_have_exited", [True])
            raise error

    monkeypatch.setattr(fair.jobs, "_run_eager", lambda *_: None)
    job = fair.submit_job(make(work), range(4), chunk_items=4, backlog=1)
    task, options = fair.jobs.eager.popleft()
    with pytest.raises(type(error)):
        task.apply((), {}, throw=True, **options)
    assert outcome(job) == (2, 0)
    assert job.progress().running == 2  # until their lease ends
    assert not fair.jobs.eager


def test_a_chunk_that_takes_much_longer_than_meant_leaves_its_rest(fair, make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(running, "monotonic", lambda: now[0])
    monkeypatch.setattr("celery_fair.jobs.working.monotonic", lambda: now[0])
    chunks = []

    def work(self, n):
        chunks.append(self.request.id)
        now[0] += 0.1 if n < 50 else 1.0

    job = fair.submit_job(make(work, bind=True), range(60), backlog=1)
    assert outcome(job) == (60, 0)
    sizes = [chunks.count(id) for id in dict.fromkeys(chunks)]
    assert max(sizes) == 10
    assert all(chunks.count(id) <= 2 for id in chunks[55:])


def test_a_long_chunk_reports_as_it_goes_and_stops_when_its_job_is_paused(
    fair, make, store, monkeypatch
):
    monkeypatch.setattr(running, "EVERY_SECONDS", 0.0)
    seen = []

    def work(n):
        seen.append((n, job_now().done))
        if n == 5:
            store.pause("j1", "by hand")

    def job_now():
        return store.progress("j1")

    fair.submit_job(make(work), range(20), chunk_items=20, id="j1")
    assert seen == [(n, n) for n in range(6)]
    assert (job_now().state, job_now().done, job_now().running) == ("paused", 6, 0)
    fair.job("j1").resume()
    assert job_now().done == 20
    assert len(seen) == 20


def test_a_chunk_with_long_results_reports_them_soon(fair, make, store, monkeypatch):
    """64 MB in one step, as a chunk of a thousand could have, would hold up all that ask Redis."""
    monkeypatch.setattr(running, "SOON_SECONDS", 0.0)
    told, report = [], store.report

    def watched(claim, said, **options):
        told.append(sum(map(len, said.results.values())))
        return report(claim, said, **options)

    monkeypatch.setattr(store, "report", watched)
    job = fair.submit_job(make(lambda n: "x" * 60_000), range(100), chunk_items=100, results=True)
    assert outcome(job) == (100, 0)
    assert len(told) > 1
    assert max(told) < 1_100_000
    assert sum(told) == 100 * 60_002


# The store


def test_a_report_is_repeated_until_a_store_that_is_away_is_back(fair, make, store, monkeypatch):
    monkeypatch.setattr("celery_fair.jobs.insisting.time.sleep", lambda _: None)
    report, away = store.report, [1, 1, 1]

    def flaky(*args, **options):
        answer = report(*args, **options)
        if away:
            away.pop()
            raise StateAway  # after it was counted
        return answer

    monkeypatch.setattr(store, "report", flaky)
    job = fair.submit_job(make(lambda n: n), range(10), chunk_items=5)
    assert outcome(job) == (10, 0)
    assert not away


def test_a_soft_limit_that_comes_with_the_last_report_takes_nothing_back(
    fair, make, store, monkeypatch
):
    report, limits = store.report, [1]

    def limited(*args, **options):
        answer = report(*args, **options)
        if limits:
            limits.pop()
            raise SoftTimeLimitExceeded  # after it was counted
        return answer

    monkeypatch.setattr(store, "report", limited)
    job = fair.submit_job(make(lambda n: n), range(10), chunk_items=5)
    assert outcome(job) == (10, 0)
    assert job.progress().state == "finished"


def test_one_that_stays_away_leaves_the_items_to_whoever_comes_after(
    fair, make, store, monkeypatch, caplog
):
    monkeypatch.setattr(running, "REPORT_SECONDS", 0.0)

    def away(*args, **options):
        raise StateAway

    with monkeypatch.context() as patch:
        patch.setattr(store, "report", away)
        job = fair.submit_job(make(lambda n: n), [1, 2], chunk_items=2)
    assert "could not report 2 items: they will be run again" in caplog.text
    assert outcome(job) == (0, 0)


def test_without_a_store_a_ticket_ends_and_frees_its_slot(fair, make, store, monkeypatch):
    monkeypatch.setattr(running, "CLAIM_SECONDS", 0.0)

    def away(*args, **options):
        raise StateAway

    with monkeypatch.context() as patch:
        patch.setattr(store, "claim", away)
        job = fair.submit_job(make(lambda n: n), [1, 2])
    assert outcome(job) == (0, 0)
    assert job.progress().running == 0


def test_a_lost_claim_ends_the_chunk_before_the_next_item_and_counts_nothing(
    fair, make, monkeypatch
):
    seen = []

    @contextmanager
    def held(renew, lost):
        held.lost = lost
        yield

    def work(n):
        seen.append(n)
        if n == 1:
            held.lost()

    monkeypatch.setattr(leases, "held", held)
    job = fair.submit_job(make(work), range(5), chunk_items=5)
    assert seen == [0, 1]
    assert outcome(job) == (0, 0)


def test_a_ticket_of_a_job_that_nobody_knows_just_ends(fair, make):
    task = make(lambda n: n)
    assert task.apply((), headers={"fair_job": "gone"}).get() is None


def test_a_ticket_that_came_twice_runs_its_items_once(fair, make, monkeypatch):
    seen = []
    monkeypatch.setattr(fair.jobs, "_run_eager", lambda *_: None)
    job = fair.submit_job(make(seen.append), range(3), chunk_items=3)
    ((task, options),) = fair.jobs.eager
    for _ in range(2):
        task.apply((), {}, **options)
    assert seen == [0, 1, 2]
    assert outcome(job) == (3, 0)


# Giving way


def test_a_chunk_that_is_asked_to_yield_leaves_its_rest_to_a_ticket_at_the_front(
    fair, make, monkeypatch
):
    seen, published = [], []
    publish = running.tickets.publish

    def watch(fair, plan, tickets, *, to_front=False, **_):
        published.append((len(seen), to_front))
        return publish(fair, plan, tickets, to_front=to_front)

    monkeypatch.setattr(running.tickets, "publish", watch)
    monkeypatch.setattr(fair, "should_yield", lambda: len(seen) == 2, raising=False)
    job = fair.submit_job(make(seen.append), range(5), chunk_items=5, backlog=1)
    assert seen == list(range(5))
    assert published[1:] == [(2, True)]
    assert job.progress().yields == 1


def test_the_last_item_of_a_chunk_is_not_followed_by_a_yield(fair, make, monkeypatch):
    monkeypatch.setattr(fair, "should_yield", lambda: True, raising=False)
    job = fair.submit_job(make(lambda n: n), range(3), chunk_items=1)
    assert (job.progress().done, job.progress().yields) == (3, 0)
