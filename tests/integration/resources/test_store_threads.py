"""Many workers at once on one real Redis: never above the limit, and nobody waits in vain."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from redis import Redis

from celery_fair.internals import Connected
from celery_fair.resources.redis_store import RedisStore
from celery_fair.resources.rules import Resource
from celery_fair.resources.store import Ended, Want
from celery_fair.state import State

PLACES, WORKERS, TASKS = 2, 6, 25
RULES = {"r": Resource("r", PLACES, interactive_reserve=0.5)}


@pytest.fixture
def make(redis_url):
    clients = []

    def make() -> RedisStore:
        clients.append(Redis.from_url(redis_url))
        client = clients[-1]
        states = [State(lambda: Connected(client, "", lambda: None), patience_seconds=20.0)] * 2
        return RedisStore(*states, RULES)

    yield make
    for client in clients:
        client.close()


class Fleet:
    """Workers that each run their tasks one after the other, asking only when they are woken."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.turns: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self._lock = threading.Lock()

    def work(self, store: RedisStore, name: str, kind: str) -> None:
        try:
            for number in range(TASKS):
                self._run(store, name, Want(f"{name}.{number}", kind, ("r",)))
        except BaseException as error:
            self.errors.append(error)

    def _run(self, store: RedisStore, name: str, want: Want) -> None:
        while not store.turn(name, [want], [], []).granted:
            self.turns[name] += 1
            store.woken(name, 2.0)
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        with self._lock:
            self.running -= 1
        store.turn(name, [], [], [Ended(want.lease, True)])
        self.done[name] += 1


def test_they_never_run_more_than_there_are_places_and_are_woken_for_what_frees(make) -> None:
    first, now = make(), [0.0]
    first._now = lambda: now[0]
    for _ in range(4):  # past its start
        first.turn("first", [], [], [])
        now[0] += 2.0
    fleet = Fleet()
    threads = [
        threading.Thread(
            target=fleet.work, args=(make(), f"w{n}", "batch" if n % 3 == 0 else "interactive")
        )
        for n in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not fleet.errors
    assert set(fleet.done.values()) == {TASKS}
    assert len(fleet.done) == WORKERS
    assert fleet.most <= PLACES
    asked = sum(fleet.turns.values())
    assert asked <= 3 * WORKERS * TASKS, f"{asked} turns in vain"
    assert first.views()[0].running == {"interactive": 0, "batch": 0}


def test_a_list_is_waited_for_whole_seconds_which_is_all_that_redis_5_takes():
    asked = []

    class Client:
        def blpop(self, keys, seconds):
            asked.append((keys, repr(seconds)))

    state = State(lambda: Connected(Client(), "shop.", lambda: None))
    assert not state.pop("wake", 5.0)
    assert not state.pop("wake", 0.0)
    assert asked == [(["shop.wake"], "5"), (["shop.wake"], "0.01")]
