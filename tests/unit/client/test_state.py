"""The Redis that keeps state: how many may ask it at once, and what is said of its failures."""

from __future__ import annotations

import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair, SettingsError, state
from celery_fair.internals import Connected, redis_by_backend
from celery_fair.jobs.redis_store import RedisStore
from celery_fair.state import AT_ONCE, TIMEOUT_SECONDS, Call, Script, State, StateAway

ASK = Call(Script("return 1"), ["key"], [])


class Narrow:
    """A client whose pool refuses whoever comes when all its connections are in use."""

    def __init__(self, connections: int) -> None:
        self._free = threading.Semaphore(connections)
        self.answers = True

    def register_script(self, text: str) -> Any:
        return self._answer

    def _answer(self, **_: Any) -> int:
        if not self.answers or not self._free.acquire(blocking=False):
            raise ConnectionError("Too many connections")
        time.sleep(0.001)
        self._free.release()
        return 1


def of(client: Narrow) -> State:
    return State(lambda: Connected(client, "", lambda: None))


def test_a_hundred_threads_that_publish_are_no_outage():
    asked, answers = of(Narrow(AT_ONCE)), []
    barrier = threading.Barrier(100)

    def ask() -> None:
        barrier.wait()
        answers.append(asked.call(ASK))

    threads = [threading.Thread(target=ask) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 100
    assert asked.failures == 0


def test_who_finds_no_room_in_time_goes_on_without(monkeypatch):
    monkeypatch.setattr(state, "TIMEOUT_SECONDS", 0.01)
    asked = of(Narrow(AT_ONCE))
    for _ in range(AT_ONCE):
        asked._room.acquire()
    with pytest.raises(StateAway):
        asked.call(ASK)
    assert not asked.is_away  # it was not asked, so nothing is known of it


def test_a_redis_that_half_works_does_not_fill_the_log(caplog):
    client = Narrow(AT_ONCE)
    asked = of(client)
    with caplog.at_level(logging.INFO, "celery_fair.state"):
        for _ in range(10):
            client.answers = False
            with pytest.raises(StateAway):
                asked.call(ASK, insist=True)
            client.answers = True
            asked.call(ASK, insist=True)
    assert asked.failures == 10
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_forked_child_has_its_own_locks_before_it_counts_as_ready(monkeypatch):
    asked, seen = of(Narrow(AT_ONCE)), []
    asked._pid = -1  # as after a fork
    make = threading.Semaphore
    monkeypatch.setattr(
        threading, "Semaphore", lambda value: (seen.append(asked._pid), make(value))[1]
    )
    assert asked.call(ASK) == 1
    assert seen == [-1]


def test_a_forked_child_can_let_go_though_a_thread_of_its_parent_held_the_lock():
    closed: list[str] = []
    asked = State(lambda: Connected(Narrow(AT_ONCE), "", lambda: closed.append("parent's")))
    asked.call(ASK)
    asked._lock.acquire()
    asked._pid = -1  # as after a fork
    child = threading.Thread(target=asked.close, daemon=True)
    child.start()
    child.join(5.0)
    assert not child.is_alive()
    assert closed == []


def test_a_narrow_pool_of_the_result_backend_is_not_taken_over():
    app = Celery("narrow", backend="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.redis_max_connections = 1
    connected = redis_by_backend(app.backend, TIMEOUT_SECONDS, AT_ONCE)
    assert connected.client.connection_pool.max_connections > AT_ONCE
    assert app.backend.client.connection_pool.max_connections == 1


def test_an_outage_says_what_it_means_for_whoever_asks(caplog):
    client = Narrow(AT_ONCE)
    client.answers = False
    asked = State(lambda: Connected(client, "", lambda: None), without="no job goes on")
    with pytest.raises(StateAway):
        asked.call(ASK)
    assert caplog.messages == [
        "celery-fair: the state's Redis can't be asked (ConnectionError: Too many connections): "
        "until it answers, no job goes on"
    ]


def test_jobs_without_a_redis_are_refused_with_the_cure():
    app = Celery("shop", broker="amqp://", set_as_current=False)
    with pytest.raises(SettingsError, match=r"jobs: expected a Redis .*\(set state_url, as in"):
        RedisStore.of(Fair(app))


def test_a_sentinel_that_hangs_keeps_nobody_waiting():
    asked, ended = threading.Event(), threading.Event()

    def hang() -> None:
        asked.set()
        ended.wait(60.0)

    client = Narrow(AT_ONCE)
    client.connection_pool = SimpleNamespace(get_master_address=hang)
    state = of(client)
    state.call(ASK)
    try:
        state.follow()
        assert asked.is_set()
        assert not ended.is_set()
        asked.clear()
        state.follow()
        assert not asked.is_set(), "nor is it asked again meanwhile"
    finally:
        ended.set()
