"""A pool's child keeps the place of its task when its worker does not."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from celery_fair.errors import StateAway
from celery_fair.policy.kinds import BATCH
from celery_fair.resources.store import Ended, Want
from celery_fair.worker.clearing.orphans import LATE_SECONDS, Orphans
from celery_fair.worker.clearing.pulse import Pulse
from celery_fair.worker.clearing.waiting import LEASE, WANT
from tests.brokers.waiting import wait_until

NOW = 1000.0
HELD = Want("w1/1", BATCH, ["openai"], 0)


class Told:
    def __init__(self) -> None:
        self.turns: list[tuple[Any, ...]] = []
        self.away = False

    def turn(self, *args: Any) -> None:
        self.turns.append(args)
        if self.away:
            raise StateAway


@pytest.fixture
def store() -> Told:
    return Told()


@pytest.fixture
def child(store) -> Orphans:
    """As it is in a child of this process: its parent is alive."""
    pulse = Pulse()
    pulse.beat(NOW)
    orphans = Orphans("w1", lambda: store, pulse)
    orphans._main = os.getppid()
    orphans._thread = SimpleNamespace()  # a test looks when it wants to
    return orphans


def task(lease: str | None = "w1/1") -> Any:
    info = {} if lease is None else {LEASE: lease, WANT: [BATCH, ["openai"], 0]}
    return SimpleNamespace(request=SimpleNamespace(delivery_info=info))


def test_while_its_worker_renews_it_does_nothing(child, store):
    child._began(task=task())
    child.look(NOW + LATE_SECONDS - 0.1)
    child._ended()
    assert store.turns == []


def test_when_its_worker_stands_still_it_renews_and_gives_back(child, store):
    child._began(task=task())
    child.look(NOW + LATE_SECONDS)
    child._ended()
    name = f"w1/{os.getpid()}"
    assert store.turns == [(name, [], [HELD], []), (name, [], [], [Ended("w1/1", True)])]


def test_when_its_worker_is_gone_it_does_so_at_once(child, store):
    child._main = 1_000_000_000
    child._began(task=task())
    child.look(NOW)
    assert store.turns == [(f"w1/{os.getpid()}", [], [HELD], [])]


def test_a_store_that_is_away_ends_nothing(child, store):
    store.away = True
    child._began(task=task())
    child.look(NOW + LATE_SECONDS)
    child._ended()
    assert len(store.turns) == 2


def test_a_task_without_a_place_is_none_of_its_business(child, store):
    child._began(task=task(None))
    child.look(NOW + LATE_SECONDS)
    child._ended()
    assert store.turns == []


def test_a_task_that_ends_as_its_place_is_renewed_gives_it_back_after_that(child, store):
    child._began(task=task())
    turn, ending = store.turn, threading.Thread(target=child._ended)

    def slowly(*args: Any) -> None:
        if not store.turns:
            ending.start()
            wait_until(lambda: child._want is None, "the task to have ended")
        turn(*args)

    store.turn = slowly
    child.look(NOW + LATE_SECONDS)
    ending.join()
    assert [bool(running) for _, _, running, _ in store.turns] == [True, False]


def test_in_the_main_process_it_watches_nothing(child, store):
    child._main = os.getpid()
    child._began(task=task())
    child.look(NOW + LATE_SECONDS)
    assert store.turns == []
