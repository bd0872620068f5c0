"""Jobs in a real Redis: the contract of all stores, what is kept there, and what goes wrong."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from celery import Celery
from redis import Redis

from celery_fair import Fair
from celery_fair.doctor.asking import state_info
from celery_fair.errors import JobNotFound, StateAway
from celery_fair.internals import Connected
from celery_fair.jobs.keeping import OPEN_SECONDS
from celery_fair.jobs.redis_store import PATIENCE_SECONDS, RedisStore
from celery_fair.jobs.store import Claim, Failed, Nothing, Report
from celery_fair.state import State
from tests.jobs.contract import *  # noqa: F403
from tests.jobs.contract import LEASE, PLAN, TASK, claim, finish, run
from tests.jobs.machine import JobMachine
from tests.jobs.walk import walk

WALKS = int(os.environ.get("WALKS", "15"))


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def state(client):
    return State(lambda: Connected(client, "app:", lambda: None))


@pytest.fixture
def store(state, clock):
    return RedisStore(state, now=clock)


@pytest.mark.timeout(600)
def test_redis_answers_as_memory_does_whatever_is_asked(client, state, full):
    class Lockstep(JobMachine):
        def make_stores(self):
            client.flushdb()
            kept = RedisStore(state, now=lambda: self.now, make_id=self.ids())
            return [self.memory(), kept]

    for seed in range(10 * WALKS if full else WALKS):
        walk(Lockstep, seed)


# What is kept


def times_to_live(client) -> dict[str, float]:
    """Seconds by key, without the prefix; of the sets of all jobs, which stay, nothing."""
    keys = [key.decode().removeprefix("app:_celery_fair.") for key in client.keys("app:*")]
    assert keys
    return {
        key: client.pttl(f"app:_celery_fair.{key}") / 1000
        for key in keys
        if not key.startswith("jobs") and not key.startswith("job.answer.")
    }


def test_every_key_of_an_open_job_expires_long_after_its_time(client, store, submit, clock):
    submit(40, keep_seconds=60.0, results=True, backlog=3)
    store.grant("j", ["a", "b", "c"])
    finish(store, store.claim("j", "a", LEASE), {0: "bad"})
    store.claim("j", "b", LEASE)
    lives = store.claim("j", "c", LEASE)
    clock.now += LEASE
    store.renew(lives, LEASE)
    store.overdue([TASK])
    left = times_to_live(client)
    parts = "meta plan items back waiting waits leases claims failures failed"
    assert set(left) == {f"job.{part}.j" for part in parts.split(" ")}
    assert all(OPEN_SECONDS < seconds <= OPEN_SECONDS + 60 for seconds in left.values())


def test_every_key_of_an_ended_job_expires_after_its_time(client, store, submit, clock):
    submit(250, keep_seconds=60.0, results=True, chunk_items=250)
    found = claim(store)
    said = Report(0, 250, results={index: "1" for index in found.indices})
    store.report(found, said, size=1, ends=True)
    clock.now += 2
    assert store.overdue([TASK]) == []  # it looks after the results
    left = times_to_live(client)
    assert {key.partition(".j")[0] for key in left} == {
        "job.meta", "job.plan", "job.results.0", "job.results.1", "job.results.2",
    }  # fmt: skip
    assert all(0 < seconds <= 60 for seconds in left.values())
    assert client.zcard(f"app:_celery_fair.jobs.open.{TASK}") == 0


def test_the_results_of_a_job_that_goes_on_live_as_long_as_it(client, store, submit, clock):
    submit(250, keep_seconds=60.0, results=True, chunk_items=250)
    found = claim(store)
    said = Report(0, 250, [Failed(0, "ValueError", "bad")], dict.fromkeys(range(1, 250), "1"))
    store.report(found, said, size=1, ends=True)
    clock.now += 2
    store.overdue([TASK])
    assert times_to_live(client)["job.results.2.j"] <= 60
    store.retry_failed("j")
    clock.now += 2
    store.overdue([TASK])
    assert times_to_live(client)["job.results.2.j"] > OPEN_SECONDS


def test_a_forgotten_job_leaves_nothing(client, store, submit):
    submit(1_250, results=True, chunk_items=1_250)
    found = claim(store)
    results = {index: "1" for index in found.indices if index}
    finish(store, found, {0: "bad"})
    store.report(found, Report(0, 1_250, results=results), size=1, ends=True)
    store.forget("j")
    assert [key for key in client.keys("app:*") if b"answer" not in key] == []


def test_what_succeeds_at_last_leaves_no_failure(client, store, submit):
    submit(8)
    run(store, failing=(1, 2))
    store.retry_failed("j")
    run(store, failing=(2,))
    assert client.hkeys("app:_celery_fair.job.failures.j") == [b"2"]
    store.retry_failed("j")
    run(store)
    assert not client.exists("app:_celery_fair.job.failures.j")


def expire(client, *ids) -> None:
    for id in ids:
        client.delete(f"app:_celery_fair.job.meta.{id}", f"app:_celery_fair.job.plan.{id}")


def test_a_job_that_has_expired_is_listed_no_more(client, store, submit, clock):
    for id in "abcde":
        clock.now += 1
        submit(4, id=id)
    expire(client, "a", "c")
    assert [one.id for one in store.list(0, 2)] == ["e", "d"]
    assert [one.id for one in store.list(0, 3)] == ["e", "d", "b"]
    assert [one.id for one in store.list()] == ["e", "d", "b"]
    assert client.zrange("app:_celery_fair.jobs", 0, -1) == [b"b", b"d", b"e"]
    store.overdue([TASK])
    assert client.zcard(f"app:_celery_fair.jobs.open.{TASK}") == 3


def test_jobs_that_nobody_lists_are_forgotten_as_others_come(client, store, clock):
    store.create(replace(PLAN, id="stays"))
    for number in range(200):
        clock.now += 0.123
        store.create(replace(PLAN, id=f"short{number}"))
        expire(client, f"short{number}")
    assert client.zcard("app:_celery_fair.jobs") < 30
    assert client.zscore("app:_celery_fair.jobs", "stays")


def test_no_job_is_taken_for_a_part_of_another(store, submit):
    for id in ("a", "items.a", "meta.a", "a.items", "0.a"):
        submit(4, id=id)
    run(store, "items.a")
    assert {one.id: one.done for one in store.list()} == {
        "a": 0, "items.a": 4, "meta.a": 0, "a.items": 0, "0.a": 0,
    }  # fmt: skip


def test_what_is_open_bounds_the_memory_of_a_job(client, store):
    def weigh():
        keys = [key for key in client.keys("app:*") if b"job.answer" not in key]
        return sum(client.memory_usage(key, samples=0) or 0 for key in keys)

    store.create(replace(PLAN, chunk_items=100))
    weights = []
    for first in range(0, 10_000, 1_000):
        numbers = range(first, first + 1_000)
        store.append("j", first, [f'{{"document": {number}}}' for number in numbers])
        weights.append(weigh())
        run(store)
    assert store.progress("j").done == 10_000
    assert max(weights) < 1.5 * weights[0]
    assert weigh() < weights[0] / 10


def calls_of(client, step) -> int:
    """How many commands Redis runs for a step, those inside of scripts among them."""
    client.config_resetstat()
    step()
    return sum(one["calls"] for one in client.info("commandstats").values())


def test_a_chunk_costs_the_same_however_large_its_job(client, store, submit):
    costs = []
    for id, count, chunk in (("small", 40, 4), ("large", 9_000, 100)):
        submit(count, id=id, chunk_items=chunk)
        if id == "large":
            run_but_one(store, id)
        store.grant(id, ["last"])
        costs.append([calls_of(client, step) for step in steps_of(store, id)])
    assert costs[1] == costs[0]
    assert max(costs[1]) < 25


def steps_of(store, id):
    """A claim, a report and a look, each when it is asked for."""
    found = []
    yield lambda: found.append(store.claim(id, "last", LEASE))
    yield lambda: store.report(found[0], Report(0, 1), size=4, ends=False)
    yield lambda: store.progress(id)


def run_but_one(store, id) -> None:
    """Work off all chunks but the last."""
    for number in range(89):
        finish(store, claim(store, id, f"t{number}"), {number * 100: "bad"})


# What goes wrong


def of(server, **options) -> RedisStore:
    return RedisStore(
        State(lambda: Connected(Redis(port=server.port, **options), "", lambda: None))
    )


def test_a_full_redis_refuses_items_and_counts_reports(redis_server):
    store = of(redis_server)
    store.create(PLAN)
    store.append("j", 0, [str(index) for index in range(20)])
    store.grant("j", ["a", "b"])
    found = store.claim("j", "a", LEASE)
    before = store.progress("j")
    with redis_server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StateAway):
            store.append("j", 20, ["20"])
        told = finish(store, found, {1: "bad"}, next_ticket="c")
        assert told.next_ticket == "c"
        found = store.claim("j", "b", LEASE)
        assert isinstance(found, Claim)
        client.config_set("maxmemory", "0")
    store = of(redis_server)
    after = store.progress("j")
    assert (after.submitted, after.done, after.failed) == (before.submitted, 3, 1)
    assert finish(store, found).counted


def test_a_job_survives_a_kill_of_its_redis_which_writes_what_it_does(start_redis):
    server = start_redis(append_only=True)
    store = of(server)
    store.create(PLAN)
    store.append("j", 0, [str(index) for index in range(20)])
    store.grant("j", ["a", "b"])
    found, left = store.claim("j", "a", LEASE), store.claim("j", "b", LEASE)
    store.report(found, Report(0, 2), size=4, ends=False)
    server.kill()
    with pytest.raises(StateAway):
        store.report(found, Report(2, 2), size=4, ends=True)
    with pytest.raises(StateAway):
        store.progress("j")
    server.start()
    assert store.report(found, Report(2, 2), size=4, ends=True).counted  # it insists
    assert store.progress("j").done == 4
    assert finish(store, left).counted
    store.close("j", 20)
    run(store)
    assert store.progress("j").done == 20


def test_a_redis_that_forgot_a_job_says_so(redis_server):
    store = of(redis_server)
    store.create(PLAN)
    store.append("j", 0, ["0"])
    found = claim(store)
    redis_server.kill()
    redis_server.start()
    assert not finish(store, found).counted
    with pytest.raises(JobNotFound):
        store.progress("j")


def test_a_job_pauses_whose_items_redis_has_evicted(client, store, submit):
    submit(8)
    store.grant("j", ["a", "b"])
    client.delete("app:_celery_fair.job.items.j")
    assert store.claim("j", "a", LEASE) == Nothing("paused")
    progress = store.progress("j")
    assert (progress.state, progress.running) == ("paused", 0)
    assert progress.reason.startswith("items of it are gone from Redis")
    store.resume("j")
    client.delete("app:_celery_fair.job.plan.j")
    assert store.claim("j", "b", LEASE) == Nothing("unknown")
    with pytest.raises(JobNotFound):
        store.progress("j")
    assert store.list() == []


def test_a_client_that_decodes_will_do(redis_server):
    store = of(redis_server, decode_responses=True)
    store.create(PLAN)
    store.append("j", 0, ["0", '"ü"'])
    finish(store, claim(store), {1: "schlecht: ü"})
    assert store.failures("j")[0].item == "ü"
    assert [one.done for one in store.list()] == [1]


def test_the_clock_is_that_of_redis(client, state):
    store = RedisStore(state)
    store.create(PLAN)
    at, _ = client.time()
    assert store.progress("j").created_at == pytest.approx(at, abs=5.0)


# Which Redis


@pytest.fixture
def make_fair():
    apps = []

    def make(broker, **settings):
        app = Celery("shop", broker=broker, set_as_current=False)
        apps.append(app)

        @app.task(name=TASK, shared=False, fair_job_by="item")
        def summarize(item):
            pass

        return Fair(app, **settings)

    yield make
    for app in apps:
        app.close()


def test_jobs_are_kept_at_the_broker_or_where_the_settings_say(make_fair, redis_url, client):
    for fair in (make_fair(redis_url), make_fair("memory://", state_url=redis_url)):
        store = RedisStore.of(fair)
        store.create(PLAN)
        assert client.exists("_celery_fair.job.meta.j")
        pool = store._state._connected.client.connection_pool
        assert pool.connection_kwargs["socket_timeout"] == PATIENCE_SECONDS
        store.cancel("j", "enough")
        store.forget("j")
        store.disconnect()


def test_the_doctor_looks_at_the_redis_that_keeps_jobs(make_fair, redis_url):
    found = state_info(make_fair("memory://", state_url=redis_url))
    assert found["maxmemory_policy"] == "noeviction"
    assert found["run_id"]
    assert state_info(make_fair("memory://")) is None
