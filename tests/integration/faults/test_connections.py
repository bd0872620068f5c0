"""Connections under faults: each lane consumes again, once, and nothing spins meanwhile."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from contextlib import contextmanager

import psutil
import pytest
import redis

from tests.brokers.broker import Broker
from tests.brokers.proxy import Proxy
from tests.brokers.sentinel import MASTER, Sentinel
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
AGAIN_SECONDS = 10.0
"""How soon after the broker is back each lane must consume."""
IDLE_SHARE = 0.05

POOLS = ("prefork", "threads", "gevent", "solo")


@pytest.fixture
def proxy_to():
    """``proxy_to(server)``: a proxy before it that may fall silent."""
    proxies = []

    def make(server):
        proxies.append(Proxy(server.port))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()


@contextmanager
def idle(worker):
    """The worker uses less than a twentieth of a core inside the block."""
    process = psutil.Process(worker.pid)
    before, begun = process.cpu_times(), time.monotonic()
    yield
    after, seconds = process.cpu_times(), time.monotonic() - begun
    used = (after.user + after.system - before.user - before.system) / seconds
    assert used < IDLE_SHARE, f"{used:.1%} of a core over {seconds:.0f} s"


def start(site, pool, **options):
    """A worker of two slots (solo: one), without heartbeats, whose events connection is quiet."""
    concurrency = 1 if pool == "solo" else 2
    return site.start(pool=pool, concurrency=concurrency, **{"settings": {"reserve": 0}, **options})


def run_both(site, name, timeout=AGAIN_SECONDS):
    """One task of each lane, published now, ends in time."""
    for kind in "ib":
        site.send(f"{kind}.late", f"{kind} {name}")
    site.journal.wait_finished(f"i {name}", f"b {name}", timeout=timeout)
    wait_until(lambda: site.unacknowledged() == 0, "both to be acknowledged")


def wait_one_pop_a_lane(site, worker, pool):
    lanes = 1 if pool == "solo" else 2
    wait_until(
        lambda: site.pops(worker) == lanes,
        lambda: f"{lanes} BRPOP, not {site.pops(worker)}",
        timeout=AGAIN_SECONDS,
    )


def wait_settled(site, worker, pool):
    """At rest: one BRPOP a lane, one timer, and no slot in use."""
    wait_one_pop_a_lane(site, worker, pool)

    def books():
        probe = site.ask(worker, "fair_probe")
        return probe["timers"], probe["slots_in_use"]

    # A slot is free after its task's ack; and on gevent two timers are there as one takes turns.
    wait_until(lambda: books() == (1, 0), lambda: f"one timer, and no slot in use: {books()}")
    assert site.ask(worker)["slots"]["audited"] == 0
    assert worker.running


# kills in each state of the gate


class Shut:
    """A lane of batch that is shut: batch has its guarantee, and interactive tasks wait."""

    def __init__(self, site, worker, pool, name):
        self.site = site
        self.path = site.folder / name
        self.labels = [f"i{number} {name}" for number in range(8)]
        blockers = ("b", "i") if pool != "solo" else ("i",)
        for kind in blockers:
            site.send(f"{kind}.until", f"{kind} blocks {name}", str(self.path))
        site.journal.wait_started(
            *(f"{kind} blocks {name}" for kind in blockers), timeout=LONG_SECONDS
        )
        self.labels += [f"{kind} blocks {name}" for kind in blockers]
        for number in range(8):
            site.send("i.late", f"i{number} {name}")
        if pool == "gevent":  # whose remote control may be away since the last loss
            worker.wait_for(lambda: _logged_gates(worker)[-1:] == ["protected"], "a shut gate")
        elif pool != "solo":  # which answers nobody while its task runs
            site.wait_status(worker, _is_shut)

    def open(self):
        self.path.touch()

    def wait_done(self):
        self.site.journal.wait_finished(*self.labels, timeout=AGAIN_SECONDS)


def _logged_gates(worker):
    return re.findall(r"celery-fair: gate (open|protected)", worker.log_text())


def _is_shut(status):
    return status["gate"]["mode"] == "protected" and status["kinds"]["batch"]["credit"] == 0


def cut_open(site, worker, pool, name):
    site.cut(worker)


def cut_shut(site, worker, pool, name):
    shut = Shut(site, worker, pool, name)
    if pool in ("gevent", "solo"):  # which notice it only as they pull again, as Celery's own do
        site.cut(worker)
    else:
        site.reconnect(worker)
        site.wait_status(worker, _is_shut)
    shut.open()
    shut.wait_done()


def cut_shut_then_open(site, worker, pool, name):
    shut = Shut(site, worker, pool, name)
    worker.send_signal(signal.SIGSTOP)
    shut.open()
    site.cut(worker)
    shut.wait_done()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("pool", POOLS)
def test_each_lane_consumes_again_whatever_the_gate_did_when_the_connection_was_lost(
    site, pool, full
):
    """F1, G1: nothing of the old connection is left, and nothing of the new one doubled."""
    worker = start(site, pool, settings={"reserve": 0, "protect_backlog": 1})
    wait_one_pop_a_lane(site, worker, pool)
    kills = 20 if full else 1
    # Open at last: on gevent remote control has a connection of its own, which Celery makes anew
    # only when it has lost the other too; a lane that is shut has nothing to lose.
    for cut in (cut_shut, cut_shut_then_open, cut_open):
        for number in range(kills):
            name = f"{cut.__name__} {number}"
            cut(site, worker, pool, name)
            run_both(site, name)
            wait_one_pop_a_lane(site, worker, pool)
    wait_settled(site, worker, pool)
    assert site.ask(worker, "fair_probe")["restarts"] >= kills
    again = [label for label, runs in site.starts().items() if runs > 1]
    # What runs before the loss is noticed can't be acknowledged: Celery's own redelivery.
    unnoticed = "cut_shut" if pool in ("gevent", "solo") else cut_shut_then_open.__name__
    assert all(unnoticed in label for label in again), again


# a broker that is away


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", POOLS)
def test_each_lane_consumes_again_when_the_broker_is_back(site, pool, start_redis, full):
    if not full and pool != "threads":
        pytest.skip("with --full")
    server = start_redis(append_only=True)
    site.use(server.url)
    worker = start(site, pool)
    run_both(site, "before")
    server.kill()
    with idle(worker):
        time.sleep(60 if full else 3)
    server.start()
    # Celery tries again after 2, 4, 6 … seconds, whoever is back meanwhile.
    worker.wait_for_log(r"(?s)Cannot connect.*(?<!pidbox: )Connected to redis", timeout=40)
    run_both(site, "after")
    wait_settled(site, worker, pool)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reset", [False, True], ids=["goes on", "is reset"])
@pytest.mark.parametrize("pool", POOLS)
def test_each_lane_consumes_again_after_a_silence(site, pool, reset, redis_server, proxy_to, full):
    """Half-open: packets are dropped, so that nobody is told that the other is away."""
    if not full and (pool not in ("threads", "gevent") or reset is (pool == "gevent")):
        pytest.skip("with --full")
    proxy = proxy_to(redis_server)
    site.use(f"redis://127.0.0.1:{proxy.port}/0", redis_server.url)
    worker = start(site, pool)
    run_both(site, "before")
    with proxy.silent(reset=reset), idle(worker):
        time.sleep(60 if full else 3)
    run_both(site, "after")
    assert set(site.starts().values()) == {1}
    assert worker.running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_connections_that_the_server_closes_while_a_lane_is_shut_cost_nothing(
    site, pool, redis_server, full
):
    """F4: a closed socket is readable for ever, and a shut lane does not read."""
    if not full and pool != "threads":
        pytest.skip("with --full")
    site.use(redis_server.url)
    worker = start(site, pool, settings={"reserve": 0, "protect_backlog": 1})
    shut = Shut(site, worker, pool, "shut")
    with redis_server.client() as client:
        client.config_set("timeout", 5 if full else 1)
    with idle(worker):
        time.sleep(60 if full else 3)
    shut.open()
    shut.wait_done()
    run_both(site, "after")
    wait_one_pop_a_lane(site, worker, pool)
    assert "Traceback" not in worker.log_text()


@pytest.fixture
def sentinel(start_redis, tmp_path):
    """A master, its replica, and a Sentinel that knows both; ``sentinel.master`` to kill."""
    master = start_redis()
    start_redis(config={"replicaof": f"127.0.0.1 {master.port}"})
    sentinel = Sentinel(tmp_path, master.port).start()
    sentinel.master = master
    yield sentinel
    sentinel.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pool", ["threads", "gevent"])
def test_each_lane_consumes_from_the_replica_that_sentinel_promotes(site, pool, sentinel, full):
    if not full and pool != "threads":
        pytest.skip("with --full")
    site.broker = Broker("redis", sentinel.url, "cache+memory://", {"master_name": MASTER})
    site.app.conf.update(site.broker.conf())
    worker = start(site, pool)
    site.send("i.late", "i before")
    site.send("b.late", "b before")
    site.journal.wait_finished("i before", "b before", timeout=AGAIN_SECONDS)
    sentinel.master.kill()
    wait_until(lambda: sentinel.state()["port"] != sentinel.master.port, "a new master", timeout=30)
    site.send("i.late", "i after")
    site.send("b.late", "b after")
    site.journal.wait_finished("i after", "b after", timeout=AGAIN_SECONDS)
    wait_until(lambda: site.ask(worker)["sensor"]["available"], "the sensor to read")
    assert worker.running


@pytest.mark.timeout(300)
@pytest.mark.brokers("filesystem")
def test_a_tick_in_a_thread_of_its_own_goes_well_with_lost_connections(site, full):
    """Where there is no event loop: consumer, timer and pool are threads, and lanes come and go."""
    each = 500 if full else 40
    for number in range(each):  # before the worker, since kombu reads files half written
        site.send("i.sleep", f"i{number}", 0.002)
        site.send("b.late", f"b{number}", 0.002)
    worker = site.start(
        concurrency=4, settings={"reserve": 1}, env={"STRIKE": "lose_connections:10"}
    )
    labels = {f"{kind}{number}" for kind in "ib" for number in range(each)}
    wait_until(lambda: labels <= set(site.journal.finished()), "all to end", timeout=200)
    assert len(site.journal.labels("lost")) >= 3
    books = wait_until(
        lambda: not (books := site.ask(worker, "fair_books"))["in_use"] and books, "no slot in use"
    )
    assert books["active"] == 0
    assert site.ask(worker)["slots"]["audited"] == 0
    wait_until(lambda: site.ask(worker, "fair_probe")["timers"] == 1, "one timer")
    assert "Error in timer" not in worker.log_text()


@pytest.mark.brokers("filesystem")
@pytest.mark.parametrize("naive", ["", "give_back_in_the_tick"], ids=["cured", "naive"])
def test_only_the_consumers_thread_uses_its_channels(site, naive):
    """Timers have a thread of their own there, and a lost connection gives messages back too."""
    site.block("b.until", "blocks")
    for number in range(4):
        site.send("b.sleep", f"b{number}")
    site.start(
        naive,
        concurrency=1,
        hoard=5,
        settings={"hold_max_seconds": 1},
        env={"STRIKE": "name_threads"},
    )
    site.journal.wait_count(4, "returned", LONG_SECONDS)
    threads = set(site.journal.labels("returned"))
    if naive:
        assert "MainThread" not in threads
        return  # two threads on one channel: what becomes of the messages is anybody's guess
    assert threads == {"MainThread"}
    site.release()
    site.journal.wait_count(5, timeout=LONG_SECONDS)
    assert set(site.starts().values()) == {1}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("fault", ["away", "silent"])
def test_each_lane_consumes_again_from_rabbitmq(site, pool, fault, start_rabbitmq, proxy_to, full):
    """A worker on RabbitMQ knows a silence by its heartbeats, where it has an event loop."""
    if not full:
        pytest.skip("with --full")
    server = start_rabbitmq()
    proxy = proxy_to(server)
    site.use(server.url.replace(f":{server.port}", f":{proxy.port}"), "cache+memory://")
    worker = start(site, pool, conf={"broker_heartbeat": 10})
    for kind in "ib":
        site.send(f"{kind}.late", f"{kind} before")
    site.journal.wait_finished("i before", "b before", timeout=AGAIN_SECONDS)
    if fault == "away":
        server.kill()
        with idle(worker):
            time.sleep(60)
        server.start()
    else:
        with proxy.silent(reset=True), idle(worker):
            time.sleep(60)
    for kind in "ib":
        site.send(f"{kind}.late", f"{kind} after")
    # Celery tries again after 2, 4, 6 … seconds, whoever is back meanwhile.
    site.journal.wait_finished("i after", "b after", timeout=AGAIN_SECONDS + 20)
    status = wait_until(lambda: site.ask(worker), "an answer", timeout=LONG_SECONDS)
    assert status["slots"]["audited"] == 0


@pytest.mark.timeout(1200)
def test_a_worker_killed_at_any_time_around_the_shutting_of_its_gate_loses_nothing(site, full):
    """F5: what a BRPOP has popped is in the worker alone until it is read."""
    draw = random.Random(5)
    for turn in range(100 if full else 1):
        worker = start(site, "threads", settings={"reserve": 0, "protect_backlog": 1})
        wait_one_pop_a_lane(site, worker, "threads")
        path = str(site.folder / f"open {turn}")
        sent = [site.send("i.late_until", f"i{number}", path).id for number in range(8)]
        time.sleep(draw.uniform(0, 0.3))
        sent += [site.send(f"{kind}.late", kind).id for kind in "bi"]
        time.sleep(draw.uniform(0, 2.0))
        worker.kill()
        finished = {entry.task_id for entry in site.journal.entries("finish")}
        found = finished | set(site.take_all()) | given_out(site)
        assert set(sent) <= found, f"turn {turn}"


def given_out(site):
    """The ids of what Redis has given out and nobody has acknowledged; they are forgotten then."""
    with redis.Redis.from_url(site.broker.url) as client:
        kept = client.hvals("unacked")
        client.delete("unacked", "unacked_index")
    return {json.loads(one)[0]["headers"]["id"] for one in kept}
