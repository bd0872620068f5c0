"""Jobs by real workers: exact counts, whoever dies meanwhile."""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter

import pytest

from celery_fair import Fair
from celery_fair.jobs import keeping
from tests.apps import jobbing
from tests.brokers.broker import Broker
from tests.brokers.process import ChildProcess
from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT

SECONDS = 30.0
#: A producer that is killed between granting a ticket and publishing it leaves it to the keepers.
RECOVERY_SECONDS = keeping.TICKET_SECONDS + 2 * SECONDS


@pytest.fixture
def make_site(start_worker):
    """``make_site(broker_url, redis_url)``: a Fair to submit with, and a way to start workers."""
    made = []

    class Site:
        def __init__(self, broker_url: str, redis_url: str) -> None:
            self.broker = Broker("url", broker_url, redis_url)
            self.app = jobbing.make_app(self.broker)
            self.fair = Fair.of(self.app)
            made.append(self)

        def start(self, pool: str, slots: int = 2, **env: str):
            return start_worker(
                "tests.apps.jobbing",
                broker=self.broker,
                pool=pool,
                concurrency=slots,
                env={"CELERY_FAIR__RESERVE": "0", **env},
            )

        def submit(self, items, task="each", **options):
            return self.fair.submit_job(task, items, **options)

    yield Site
    for site in made:
        site.fair.uninstall()
        site.app.close()


@pytest.fixture
def site(make_site, redis_url):
    return make_site(redis_url, redis_url)


@pytest.fixture
def ran(journal):
    """``ran()``: how often each item has run."""
    return lambda: Counter(int(label) for label in journal.labels("item"))


def counts(progress):
    return progress.state, progress.done, progress.failed, progress.running


def test_items_that_fail_or_kill_their_worker_fail_alone(site, journal, ran):
    site.start("prefork")
    told = site.app.tasks["told"]
    items = [{"n": n} for n in range(60)]
    items[13]["fail"] = True
    items[37]["die"] = signal.SIGTERM  # as by a hard time limit
    job = site.submit(items, results=True, on_finish=told.s("finished"), chunk_items=3)
    last = job.wait(SECONDS)
    assert counts(last) == ("finished with failures", 58, 2, 0)
    assert [(one.index, one.error, one.times) for one in job.failures()] == [
        (13, "ValueError", 1),
        (37, "WorkerLost", 1),
    ]
    assert job.results(0, 100) == {n: n for n in range(60) if n not in (13, 37)}
    assert set(ran()) == set(range(60))
    assert 3 <= ran()[37] <= 5  # until it was alone
    journal.wait_count(1, "finished")
    # Again, and the others stay as they are.
    assert job.retry_failed() == 2
    assert counts(job.wait(SECONDS)) == ("finished with failures", 58, 2, 0)
    assert ran()[13] >= 2


def test_processes_that_are_spawned_work_on_jobs_and_publish_by_kind(site, journal):
    site.start("prefork", slots=1, START_METHOD="spawn")
    told = site.app.tasks["told"]
    items = [{"n": n} for n in range(5)]
    job = site.submit(items, on_finish=told.s("finished"), chunk_items=2)
    assert counts(job.wait(SECONDS)) == ("finished", 5, 0, 0)
    journal.wait_count(1, "finished")
    site.app.tasks["asking"].delay()
    journal.wait_count(1, "asking")
    [asked] = journal.entries("asking")
    assert asked.more == {"queue": "celery.batch"}


def test_it_stops_within_an_item_when_it_is_paused_or_its_worker_stops(site, ran):
    worker = site.start("threads", slots=1, JOB_LEASE="30")
    job = site.submit([{"n": n, "sleep": 0.02} for n in range(200)], chunk_items=100)
    wait_until(lambda: len(ran()) > 5, "some items to run")
    job.pause("by hand")
    wait_until(lambda: job.progress().running == 0, "what runs to end")
    paused = job.progress()
    assert (paused.state, paused.reason) == ("paused", "by hand")
    assert paused.done == sum(ran().values()) <= 200
    job.resume()
    assert counts(job.wait(SECONDS)) == ("finished", 200, 0, 0)
    job = site.submit([{"n": 1000 + n, "sleep": 0.2} for n in range(60)], chunk_items=60)
    wait_until(lambda: 1002 in ran(), "some more to run")
    worker.send_signal(signal.SIGTERM)
    worker.wait(SECONDS)
    stopped = job.progress()
    assert 200 + stopped.done == len(ran()) < 260
    assert (stopped.state, stopped.running) == ("running", 0)
    assert set(ran().values()) == {1}


@pytest.mark.timeout(400)
def test_the_counts_are_exact_whoever_is_killed(make_site, rabbitmq_url, redis_url, tmp_path, ran):
    site = make_site(rabbitmq_url, redis_url)
    worker = site.start("prefork")
    command = [sys.executable, "-m", "tests.apps.producing", "j1", "400", "0.001"]
    producer = ChildProcess(
        "producer", command, tmp_path / "producer.log", env=site.broker.environ(), cwd=ROOT
    )
    job = site.fair.job("j1")
    draw = random.Random(7)
    try:
        for least in (40, 200):
            least += draw.randrange(50)
            producer.spawn()
            producer.wait_for(
                lambda least=least: len(ran()) > least, "items to run", timeout=RECOVERY_SECONDS
            )
            producer.kill()
        worker.kill()
        worker.spawn()
        producer.spawn()
        last = job.wait(RECOVERY_SECONDS)
        assert counts(last) == ("finished", 400, 0, 0)
        assert (last.total, last.submitted) == (400, 400)
        assert producer.wait(SECONDS) == 0
    finally:
        producer.close()
    assert set(ran()) == set(range(400))
