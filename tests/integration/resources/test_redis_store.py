"""Redis does what the model does, number by number, and what only a server can do to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from celery_fair import Fair, state
from celery_fair.errors import StateAway
from celery_fair.resources.redis_store import RedisStore
from celery_fair.resources.rules import Resource
from celery_fair.resources.store import Ended, ResourceStore, Short, Turn, Want
from celery_fair.resources.walk import MOST_GRANTED
from tests.brokers.redis import RedisServer
from tests.brokers.sentinel import MASTER, Sentinel
from tests.brokers.waiting import wait_until
from tests.resources.machine import RULES, ResourceMachine
from tests.resources.walk import walk

Make = Callable[..., RedisStore]

ONE, TWO = (Want(name, "interactive", ("r",)) for name in ("1", "2"))


@pytest.fixture
def make() -> Iterator[Make]:
    fairs, stores = [], []

    def make(url: str, rules: Any = None, now: Any = None, options: Any = None) -> RedisStore:
        app = Celery("shop", broker=url, set_as_current=False)
        app.conf.broker_transport_options = options or {}
        fairs.append(Fair(app))
        stores.append(RedisStore.of(fairs[-1], rules or {"r": Resource("r", 1)}))
        stores[-1]._now = now
        return stores[-1]

    yield make
    for store in stores:
        store.disconnect()
    for fair in fairs:
        fair.uninstall()


@pytest.mark.parametrize("seed", range(6))
def test_redis_answers_as_the_model(make: Make, redis_url: str, seed: int) -> None:
    class Machine(ResourceMachine):
        def make_stores(self) -> list[ResourceStore]:
            return [self.memory(), make(redis_url, RULES, lambda: self.now)]

    walk(Machine, seed)


def test_redis_answers_as_the_model_where_many_ask_at_once(make: Make, redis_url: str) -> None:
    class Machine(ResourceMachine):
        def make_stores(self) -> list[ResourceStore]:
            return [self.memory(), make(redis_url, RULES, lambda: self.now)]

    machine, numbers = Machine(), range(70)
    for step in range(12):
        machine.now += 1.0
        for name in ("a", "b", "c"):
            worker = machine.workers[name]
            if step == 2:
                worker.wants = {
                    f"{name}{n}": Want(f"{name}{n}", "interactive", ("free",), 0) for n in numbers
                }
            answer = machine.turn(name)
            assert len(answer.granted) <= MOST_GRANTED
    for _ in range(8):
        machine.now += 2.0
        machine.ask("views")
    assert machine.ask("views")[1].running["interactive"] == 0


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def started(store: RedisStore, clock: Clock, running: list[Want] | None = None) -> None:
    """Let the time pass after which a store grants, while one worker renews what it runs."""
    for _ in range(4):
        store.turn("a", [], running or [], [])
        clock.now += 2.0


def shorts(turn: Turn) -> dict[str, Short]:
    return {lease: wait.short for lease, wait in turn.waits.items()}


def test_a_redis_that_lost_all_grants_nothing_until_those_who_run_have_told(
    make: Make, redis_url: str, shared_redis: RedisServer
) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    assert store.turn("a", [ONE], [], []).granted == ["1"]
    with shared_redis.client(int(redis_url.rpartition("/")[2])) as client:
        client.flushdb()
    assert shorts(store.turn("b", [TWO], [], [])) == {"2": Short.STARTING}
    assert store.turn("a", [], [ONE], []).lost == ["1"]
    started(store, clock, [ONE])
    assert shorts(store.turn("b", [TWO], [], [])) == {"2": Short.RUNNING}


@pytest.mark.parametrize("key", ["leases", "until", "waiting"])
def test_a_part_that_was_evicted_is_as_a_loss_of_all(
    make: Make, redis_url: str, shared_redis: RedisServer, key: str
) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    store.turn("a", [ONE], [], [])
    store.turn("b", [TWO], [], [])
    with shared_redis.client(int(redis_url.rpartition("/")[2])) as client:
        assert client.delete(f"_celery_fair.resources.{key}")
    assert shorts(store.turn("b", [TWO], [], [])) == {"2": Short.STARTING}


@pytest.mark.parametrize("key", ["lines", "line.interactive:r", "workers", "seen"])
def test_lines_and_workers_that_were_evicted_are_made_anew(
    make: Make, redis_url: str, shared_redis: RedisServer, key: str
) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    store.turn("a", [ONE], [], [])
    store.turn("b", [TWO], [], [])
    with shared_redis.client(int(redis_url.rpartition("/")[2])) as client:
        assert client.delete(f"_celery_fair.resources.{key}")
    assert shorts(store.turn("b", [TWO], [], [])) == {"2": Short.RUNNING}
    store.turn("a", [], [], [Ended("1", True)])
    assert store.turn("b", [TWO], [], []).granted == ["2"]


def test_a_redis_that_comes_back_with_an_old_copy_asks_those_who_run_first(
    make: Make, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path).start()
    try:
        clock = Clock()
        store = make(server.url, now=clock)
        started(store, clock)
        with server.client() as client:
            client.save()
        assert store.turn("a", [ONE], [], []).granted == ["1"]
        server.kill()
        with pytest.raises(StateAway):
            store.turn("a", [], [ONE], [])
        server.start()
        other = make(server.url, now=clock)
        assert shorts(other.turn("b", [TWO], [], [])) == {"2": Short.STARTING}
        assert store.turn("a", [], [ONE], []).lost == ["1"]
    finally:
        server.close()


def test_a_copy_that_is_older_than_what_a_worker_has_seen_is_noticed_without_a_restart(
    make: Make, redis_url: str, shared_redis: RedisServer
) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    with shared_redis.client(int(redis_url.rpartition("/")[2])) as client:
        before = client.hget("_celery_fair.resources", "step")
        store.turn("a", [], [], [])
        store.turn("a", [], [], [])
        client.hset("_celery_fair.resources", "step", before)
    assert shorts(store.turn("a", [ONE], [], [])) == {"1": Short.STARTING}


def fails_over(sentinel: redis.Redis) -> bool:
    """Whether a failover has begun; a replica is not fit for one until Sentinel has heard of it."""
    try:
        sentinel.execute_command("SENTINEL", "FAILOVER", MASTER)
    except redis.ResponseError as error:
        if not str(error).startswith("NOGOODSLAVE"):
            raise
        return False
    return True


def test_a_master_that_sentinel_has_replaced_is_left_while_it_still_serves(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For some ten seconds both would give out all places, each to those who ask it."""
    monkeypatch.setattr(state, "FOLLOW_SECONDS", 0.0)
    servers = [RedisServer(tmp_path, config={"repl-diskless-sync-delay": "0"}, name="old").start()]
    try:
        old = servers[0]
        of_old = {"replicaof": f"127.0.0.1 {old.port}"}
        servers.append(RedisServer(tmp_path, config=of_old, name="new").start())
        with old.client() as client:  # else Sentinel looks again in ten seconds
            wait_until(lambda: client.info("replication")["connected_slaves"], "the replica")
        servers.append(Sentinel(tmp_path, old.port).start())
        sentinel = servers[2]
        store = make(sentinel.url, options={"master_name": MASTER})
        store.turn("a", [], [ONE], [])
        with redis.Redis(port=sentinel.port) as client:
            wait_until(lambda: fails_over(client), "a failover to begin")
        wait_until(lambda: sentinel.state()["port"] != old.port, "another master")
        assert store.turn("a", [TWO], [ONE], []).waits["2"].short == Short.STARTING
        with servers[1].client() as new, old.client() as client:
            assert new.hget("_celery_fair.resources", "run") == new.info("server")["run_id"]
            assert client.info("replication")["role"] == "master"  # and would have answered
    finally:
        for server in servers:
            server.close()


def test_two_apps_with_a_prefix_each_share_a_redis_and_no_place(
    make: Make, redis_url: str, shared_redis: RedisServer
) -> None:
    clock = Clock()
    stores = [
        make(redis_url, now=clock, options={"global_keyprefix": prefix}) for prefix in ("a:", "b:")
    ]
    for store in stores:
        started(store, clock)
    for store in stores:
        assert store.turn("w", [ONE], [], []).granted == ["1"]
    assert not stores[1].woken("w", 0.01)
    stores[0].turn("w", [], [], [Ended("1", True)])
    assert [store.views()[0].running["interactive"] for store in stores] == [0, 1]
    with shared_redis.client(int(redis_url.rpartition("/")[2])) as client:
        assert {key[:2] for key in client.keys("*")} == {"a:", "b:"}


def test_who_looks_by_other_rules_leaves_budgets_as_they_are(make: Make, redis_url: str) -> None:
    """As `fair resources` does, run where other settings are in force than the workers'."""
    clock = Clock()
    budgets = {"r": Resource("r", None, None, 6000.0)}
    small = {"r": Resource("r", None, None, 60.0), "new": Resource("new", 1)}
    store, other = make(redis_url, budgets, now=clock), make(redis_url, small, now=clock)
    store.views()  # it begins, with nothing
    clock.now += 120.0
    full = store.views()[0].tokens_left
    assert full == 600.0
    assert other.views()[1].tokens_left == 6.0
    assert list(other.holders()) == []
    assert store.views()[0].tokens_left == full


def test_a_redis_that_is_full_still_gives_places_and_takes_them_back(
    make: Make, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path).start()
    try:
        clock = Clock()
        store = make(server.url, now=clock)
        started(store, clock)
        with server.client() as client:
            client.config_set("maxmemory", 1)
            with pytest.raises(redis.exceptions.ResponseError):
                client.set("any", "thing")
        assert store.turn("a", [ONE, TWO], [], []).granted == ["1"]
        assert store.turn("a", [TWO], [], [Ended("1", True)]).granted == ["2"]
        store.charge("r", tokens=5)
        assert store.views()[0].running["interactive"] == 1
    finally:
        server.close()


def test_who_may_not_ask_which_server_it_is_goes_without(make: Make, tmp_path: Path) -> None:
    server = RedisServer(tmp_path).start()
    try:
        with server.client() as client:
            client.acl_setuser("few", True, passwords=["+s"], keys=["*"], categories=["+@all"],
                               commands=["-info"])  # fmt: skip
        clock = Clock()
        store = make(server.url.replace("//", "//few:s@"), now=clock)
        started(store, clock)
        assert store.turn("a", [ONE], [], []).granted == ["1"]
    finally:
        server.close()


def test_one_who_may_not_ask_which_server_it_is_unsettles_nobody_who_may(
    make: Make, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path).start()
    try:
        with server.client() as client:
            client.acl_setuser("few", True, passwords=["+s"], keys=["*"], categories=["+@all"],
                               commands=["-info"])  # fmt: skip
        clock = Clock()
        store, few = make(server.url, now=clock), make(server.url.replace("//", "//few:s@"))
        few._now = clock
        few.views()
        started(store, clock)
        few.views()
        assert store.turn("a", [ONE], [], []).granted == ["1"]
    finally:
        server.close()


def test_a_redis_that_hangs_is_waited_for_once_by_those_who_charge(
    make: Make, tmp_path: Path
) -> None:
    server = RedisServer(tmp_path).start()
    store = make(server.url)
    try:
        store.charge("r")
        server.kill()
        with pytest.raises(StateAway):
            store.charge("r", tokens=7)
        server.start()
        with pytest.raises(StateAway):
            store.slow_down("r", None)
        store.views()  # who has a pace of its own asks, and finds it back
        store.slow_down("r", None)
    finally:
        server.close()


def test_a_call_that_redis_runs_after_a_later_one_changes_nothing(
    make: Make, redis_url: str
) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    store.turn("a", [ONE], [], [])
    store.turn("a", [], [], [Ended("1", True)])
    store._number -= 2
    with pytest.raises(StateAway):
        store.turn("a", [ONE], [ONE], [])
    assert store.views()[0].running == {"interactive": 0, "batch": 0}


def test_a_place_that_frees_wakes_the_one_who_is_next_and_no_other(
    make: Make, redis_url: str
) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    store.turn("a", [ONE], [], [])
    store.turn("b", [TWO], [], [])
    store.turn("c", [Want("3", "interactive", ("r",))], [], [])
    heard: dict[str, bool] = {}
    waiting = [
        threading.Thread(target=lambda name=name: heard.update({name: store.woken(name, 5.0)}))
        for name in "b"
    ]
    for thread in waiting:
        thread.start()
    store.turn("a", [], [], [Ended("1", True)])
    for thread in waiting:
        thread.join()
    assert heard == {"b": True}
    assert not store.woken("c", 0.01)
    assert store.turn("b", [TWO], [], []).granted == ["2"]
    assert not store.woken("b", 0.01), "who has come isn't woken for what it has"


def test_all_keys_expire(make: Make, redis_url: str, shared_redis: RedisServer) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    store.turn("a", [ONE, TWO], [], [])
    clock.now += 3600.0
    store.turn("a", [TWO], [ONE], [])
    with shared_redis.client(int(redis_url.rpartition("/")[2])) as client:
        assert [key for key in client.keys("_celery_fair.resources*") if client.ttl(key) < 0] == []


def test_a_name_of_any_worker_and_lease_is_kept_as_it_is(make: Make, redis_url: str) -> None:
    clock = Clock()
    store = make(redis_url, now=clock)
    started(store, clock)
    wild = Want('a "task" / 1 é', "batch", ("r",), 7)
    assert store.turn("w 1@höst {x}", [wild], [], []).granted == [wild.lease]
    assert store.turn("w 1@höst {x}", [], [wild], []).lost == []
    store.turn("w 1@höst {x}", [], [], [Ended(wild.lease, True)])
    assert store.views()[0].running == {"interactive": 0, "batch": 0}
