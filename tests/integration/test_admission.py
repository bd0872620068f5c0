"""Admission on real brokers: full, refused, drained, admitted; and never an outage of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from celery import Celery

from celery_fair import Fair, QueueFull
from celery_fair.admission.backlog import ANSWER_SECONDS
from tests.apps import mixed, sharing
from tests.apps.sharing import PLACES
from tests.brokers.broker import Broker
from tests.brokers.proxy import Proxy
from tests.brokers.waiting import wait_until

PRIORITY_STEPS = 4
"""How many lists kombu keeps for a queue on Redis."""

Limited = Callable[..., tuple[Celery, Fair]]


@pytest.fixture
def limited(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Limited]:
    """``limited(batch_max_backlog=5)``: an app to publish with; workers have no limit."""
    apps = []

    def make(conf: dict[str, object] | None = None, **settings: object) -> tuple[Celery, Fair]:
        with monkeypatch.context() as patch:
            for name, value in settings.items():
                patch.setenv(f"CELERY_FAIR__{name.upper()}", str(value))
            app = mixed.make_app(broker, **(conf or {}))
            fair = Fair.of(app)
            assert fair is not None
            assert fair.settings
        apps.append((app, fair))
        return app, fair

    yield make
    for app, fair in apps:
        fair.uninstall()
        app.close()


def is_admitted(fair: Fair, kind: str) -> bool:
    try:
        fair.admit(kind)
    except QueueFull:
        return False
    return True


@pytest.mark.brokers("redis", "rabbitmq")
def test_what_is_full_is_refused_until_it_is_drained(limited, start_worker, journal) -> None:
    app, fair = limited(batch_max_backlog=5, interactive_max_backlog=100)
    for number in range(5):
        app.tasks["b.sleep"].delay(f"b{number}", 0.1)
    with pytest.raises(QueueFull) as caught:
        app.tasks["b.sleep"].delay("over")
    assert (caught.value.kind, caught.value.backlog, caught.value.limit) == ("batch", 5, 5)
    app.tasks["i.sleep"].delay("i")
    # Another process sees the same, with nothing published by itself.
    _, other = limited(batch_max_backlog=5)
    assert not is_admitted(other, "batch")
    start_worker("tests.apps.mixed", pool="threads", concurrency=2)
    wait_until(lambda: is_admitted(fair, "batch"), "the backlog to drain", timeout=20)
    app.tasks["b.sleep"].delay("after")
    wait_until(lambda: "after" in journal.labels("finish"), "the admitted task", timeout=20)
    assert "over" not in journal.labels("start")
    assert fair.admission.facts().blind.get("batch", 0) == 0


@pytest.mark.brokers("redis", "rabbitmq")
def test_what_waits_in_a_worker_for_a_place_is_counted(
    limited, start_worker, journal, broker, redis_server
) -> None:
    """The worker takes all of it from the broker, and can run none."""
    env = {"CELERY_FAIR__STATE_URL": redis_server.url, "CELERY_FAIR__RESERVE": "0"}
    start_worker("tests.apps.sharing", pool="threads", concurrency=3, env=env)
    asks = sharing.make_app(broker).tasks["b.asks"]
    for number in range(PLACES + 8):
        asks.apply_async((f"b{number}", 600.0))
    _, fair = limited(batch_max_backlog=8, interactive_max_backlog=8)
    wait_until(lambda: len(journal.labels("start")) == PLACES, "places to be taken", timeout=20)
    wait_until(lambda: not is_admitted(fair, "batch"), "the worker's word", timeout=20)
    assert fair.admission.backlog.of("batch") == 8
    assert is_admitted(fair, "interactive")


@pytest.mark.brokers("redis", "rabbitmq")
def test_the_wait_is_estimated_from_what_the_workers_say(limited, start_worker, journal) -> None:
    app, fair = limited(interactive_max_wait_seconds=2)
    start_worker("tests.apps.mixed", pool="threads", concurrency=2)
    for number in range(4):
        app.tasks["i.sleep"].delay(f"first{number}", 0.5)

    def rate() -> float | None:
        fair.admit("interactive")  # it hears the workers where it asks
        return len(journal.labels("finish")) == 4 and fair.admission.backlog.rate("interactive")

    wait_until(rate, "the worker to tell its mean run time", timeout=20)
    for number in range(32):  # on two slots, less batch's share: some ten seconds
        fair.app.send_task("i.sleep", (f"more{number}", 0.5), parent_id="let in")

    def refusal() -> QueueFull | None:
        try:
            fair.admit("interactive")
        except QueueFull as error:
            return error
        return None

    error = wait_until(refusal, "the next reading", timeout=10)
    assert error.limited_by == "wait"
    assert 2 < error.wait_seconds < 30
    with app.connection_for_write() as connection:
        connection.default_channel.queue_purge("celery")
    wait_until(lambda: is_admitted(fair, "interactive"), "the wait to be short again", timeout=20)


def test_fifty_threads_read_the_broker_ten_times_a_second(limited, redis_server, broker) -> None:
    app, fair = limited({"broker_url": redis_server.url}, interactive_max_backlog=1_000_000)
    with redis_server.client() as client:
        client.config_resetstat()
        started = time.monotonic()
        published = []

        def publish() -> None:
            while time.monotonic() < started + 2:
                published.append(app.send_task("i.sleep", ("x",)).id)

        threads = [threading.Thread(target=publish) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        seconds = time.monotonic() - started
        lengths = client.info("commandstats")["cmdstat_llen"]["calls"]
    assert len(published) > 100
    assert 2 <= fair.admission.facts().reads <= seconds * 10 + 1
    # Each connection of Celery's own pool declares the queue once, by which kombu counts it too.
    declares = lengths / PRIORITY_STEPS - fair.admission.facts().reads
    assert 0 <= declares <= app.conf.broker_pool_limit
    assert fair.admission.facts().blind["interactive"] == 0


def test_a_limit_holds_though_fifty_threads_burst_upon_it(limited, redis_server, broker) -> None:
    app, _ = limited({"broker_url": redis_server.url}, interactive_max_backlog=20)
    outcomes: list[bool] = []

    def publish() -> None:
        for _ in range(4):
            try:
                app.send_task("i.sleep", ("x",))
                outcomes.append(True)
            except QueueFull:
                outcomes.append(False)

    threads = [threading.Thread(target=publish) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == 200
    assert 20 <= sum(outcomes) <= 20 + 50  # those who had asked before the others were counted
    with redis_server.client() as client:
        assert client.llen("celery") == sum(outcomes)


def test_a_broker_that_does_not_answer_admits_soon_and_is_asked_again(
    limited, redis_server, broker
) -> None:
    proxy = Proxy(urlsplit(redis_server.url).port or 0)
    urls = {
        "broker_url": redis_server.url,
        "broker_write_url": redis_server.url,
        "broker_read_url": f"redis://127.0.0.1:{proxy.port}/0",
    }
    try:
        app, fair = limited(urls, batch_max_backlog=1)
        app.send_task("b.sleep", ("x",))
        assert not is_admitted(fair, "batch")
        time_taken = []
        with proxy.silent(reset=True):
            until = time.monotonic() + 4
            while time.monotonic() < until:
                started = time.monotonic()
                if is_admitted(fair, "batch"):
                    app.send_task("b.sleep", ("x",))
                time_taken.append(time.monotonic() - started)
        assert fair.admission.facts().blind["batch"] > 20
        assert max(time_taken) < 4
        # Once a second one waits until the broker doesn't answer, the others for nothing.
        assert sorted(time_taken)[-5] < ANSWER_SECONDS
        wait_until(lambda: not is_admitted(fair, "batch"), "the limit to be back", timeout=15)
    finally:
        proxy.close()


def test_a_request_that_is_sent_again_is_no_second_one(limited) -> None:
    """It is answered by the first one's handle though all is full; a refused one leaves nothing."""
    app, fair = limited(interactive_max_backlog=1, deduplicate_seconds=60)
    first = app.send_task("i.sleep", ("x",), request_id="r1")
    assert app.send_task("i.sleep", ("x",), request_id="r1").id == first.id
    with pytest.raises(QueueFull):
        app.send_task("i.sleep", ("x",), request_id="r2")
    with app.connection_for_write() as connection:
        connection.default_channel.queue_purge("celery")
        connection.default_channel.queue_purge("celery.front")
    wait_until(lambda: is_admitted(fair, "interactive"), "the backlog to be read anew")
    app.send_task("i.sleep", ("x",), request_id="r2")
    with app.connection_for_write() as connection:
        assert connection.default_channel.queue_declare("celery", passive=True).message_count == 1


GREENLETS = """
from gevent import monkey; monkey.patch_all()
import gevent, sys, time
from celery import Celery
from celery_fair import Fair, QueueFull
app = Celery(broker=sys.argv[1]); fair = Fair(app, interactive_max_backlog=30)
def publish():
    try:
        for _ in range(5): app.send_task("x")
    except QueueFull: return "full"
jobs = [gevent.spawn(publish) for _ in range(50)]
gevent.joinall(jobs, timeout=20, raise_error=True)
print(all(job.ready() for job in jobs), sum(job.value == "full" for job in jobs) > 0)
"""


@pytest.mark.brokers("redis", "rabbitmq")
def test_greenlets_wait_for_each_other_and_for_nothing_else(broker) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GREENLETS, broker.url], capture_output=True, text=True, timeout=40
    )
    assert done.stdout == "True True\n", done.stderr
