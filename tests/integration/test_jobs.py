"""Jobs by real workers: exact counts, whoever dies meanwhile."""

from __future__ import annotations

import random
import signal
import sys
from collections import Counter

import pytest

from celery_fair import Fair
from tests.apps import jobbing
from tests.brokers.broker import Broker
from tests.brokers.process import ChildProcess
from tests.brokers.waiting import wait_until
from tests.nodes.worker import ROOT

SECONDS = 30.0


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

        def start(self, pool: str, slots: int = 2):
            return start_worker(
                "tests.apps.jobbing",
                broker=self.broker,
                pool=pool,
                concurrency=slots,
                env={"CELERY_FAIR__RESERVE": "0"},
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
    items[13]["fail"] = items[37]["die"] = True
    job = site.submit(items, results=True, on_finish=told.s("finished"), chunk_items=10)
    last = job.wait(SECONDS)
    assert counts(last) == ("finished with failures", 58, 2, 0)
    assert [(one.index, one.error, one.times) for one in job.failures()] == [
        (13, "ValueError", 1),
        (37, "WorkerLost", 1),
    ]
    assert job.results(0, 100) == {n: n for n in range(60) if n not in (13, 37)}
    assert set(ran()) == set(range(60))
    assert 3 <= ran()[37] <= 5  # in halves, until it was alone
    journal.wait_count(1, "finished")
    # Again, and the others stay as they are.
    assert job.retry_failed() == 2
    assert counts(job.wait(SECONDS)) == ("finished with failures", 58, 2, 0)
    assert ran()[13] == 2
    assert all(times == 1 for n, times in ran().items() if not 30 <= n < 40 and n != 13)


def test_it_stops_within_an_item_when_it_is_paused_and_goes_on(site, ran):
    site.start("threads")
    job = site.submit([{"n": n, "sleep": 0.02} for n in range(400)], task="lists")
    wait_until(lambda: len(ran()) > 20, "some items to run")
    job.pause("by hand")
    wait_until(lambda: job.progress().running == 0, "what runs to end")
    paused = job.progress()
    assert (paused.state, paused.reason) == ("paused", "by hand")
    assert paused.done == sum(ran().values()) < 400
    job.resume()
    assert counts(job.wait(SECONDS)) == ("finished", 400, 0, 0)
    assert set(ran().values()) == {1}


@pytest.mark.parametrize("broker_name", ["redis", "rabbitmq"])
def test_the_counts_are_exact_whoever_is_killed(request, make_site, redis_url, broker_name, ran):
    url = redis_url if broker_name == "redis" else request.getfixturevalue("rabbitmq_url")
    site = make_site(url, redis_url)
    worker = site.start("prefork")
    command = [sys.executable, "-m", "tests.apps.producing", "j1", "600", "0.001"]
    folder = request.getfixturevalue("tmp_path")
    producer = ChildProcess(
        "producer", command, folder / "producer.log", env=site.broker.environ(), cwd=ROOT
    )
    job = site.fair.job("j1")
    draw = random.Random(7)
    try:
        for least in (40, 150, 300):
            least += draw.randrange(50)
            producer.spawn()
            producer.wait_for(lambda least=least: len(ran()) > least, "items to run")
            producer.kill()
            assert job.progress().submitting
        worker.kill()
        worker.spawn()
        producer.spawn()
        last = job.wait(2 * SECONDS)
        assert counts(last) == ("finished", 600, 0, 0)
        assert (last.total, last.submitted) == (600, 600)
        assert producer.wait() == 0
    finally:
        producer.close()
    assert set(ran()) == set(range(600))


def test_a_worker_that_stops_leaves_a_long_chunk_at_its_next_item(site, ran):
    worker = site.start("prefork", slots=1)
    job = site.submit([{"n": n, "sleep": 0.2} for n in range(40)], chunk_items=40)
    wait_until(lambda: len(ran()) > 2, "some items to run")
    worker.send_signal(signal.SIGTERM)
    worker.wait(SECONDS)
    stopped = job.progress()
    assert stopped.done == len(ran()) < 40
    assert stopped.running == 0
    site.start("threads", slots=2)
    job.cancel("enough")
    assert job.wait(SECONDS).state == "cancelled"
    assert set(ran().values()) == {1}
