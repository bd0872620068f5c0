"""Each pool tells in its own way that a slot is free; a slot is free once in all of them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from celery_fair.policy.kinds import BATCH
from celery_fair.worker.pools import (
    EventletPool,
    GeventPool,
    Pool,
    SoloPool,
    ThreadPool,
    adapt,
)
from celery_fair.worker.slots import Slots


class Greenlet:
    """Calls its links when it is over, killed before it began or not."""

    def __init__(self) -> None:
        self._links = []

    def link(self, callback) -> None:
        self._links.append(callback)

    def end(self) -> None:
        for callback in self._links:
            callback(self)


class Spawner:
    """A green pool: spawns at once, and notes that it was asked to."""

    def __init__(self) -> None:
        self.spawned = []

    def spawn_n(self, function) -> None:
        self.spawned.append(function)


@pytest.fixture
def freed():
    return []


@pytest.fixture
def slots(freed):
    return Slots(lambda: freed.append(1))


@pytest.fixture
def slot(slots):
    return slots.take(BATCH, SimpleNamespace(_already_revoked=True, time_start=None), 0.0)


def _pool(**options):
    return SimpleNamespace(num_processes=4, **options)


def test_each_pool_of_celery_has_its_adapter():
    names = {
        "celery.concurrency.prefork": Pool,
        "celery.concurrency.thread": ThreadPool,
        "celery.concurrency.gevent": GeventPool,
        "celery.concurrency.eventlet": EventletPool,
        "celery.concurrency.solo": SoloPool,
    }
    for module, adapter in names.items():
        made = type("TaskPool", (), {"__module__": module})()
        assert type(adapt(made)) is adapter


def test_a_subclass_of_a_pool_is_adapted_as_its_base():
    base = type("TaskPool", (), {"__module__": "celery.concurrency.thread"})
    own = type("OwnPool", (base,), {"__module__": "shop.pools"})
    assert type(adapt(own())) is ThreadPool


def test_a_pool_nobody_knows_is_taken_to_call_back():
    assert type(adapt(_pool())) is Pool


def test_solo_has_one_slot_whatever_the_concurrency():
    assert SoloPool(_pool()).slots == 1
    assert Pool(_pool()).slots == 4


@pytest.mark.parametrize("ending", ["callback", "error_callback"])
def test_either_completion_callback_frees_the_slot_and_is_still_called(ending, slot, freed):
    called = []
    given = {}
    options = {"callback": called.append, "error_callback": called.append}
    Pool(_pool()).apply(lambda **o: given.update(o), slot, (), options)
    assert freed == []
    given[ending]("the result")
    assert (called, freed) == (["the result"], [1])


def test_a_callback_that_raises_frees_the_slot_all_the_same(slot, freed):
    def broken(*_):
        raise ValueError("the callback's own")

    given = {}
    Pool(_pool()).apply(lambda **o: given.update(o), slot, (), {"callback": broken})
    with pytest.raises(ValueError, match="the callback's own"):
        given["callback"]("the result")
    assert freed == [1]


def test_a_call_without_callbacks_frees_the_slot_too(slot, freed):
    given = {}
    Pool(_pool()).apply(lambda **o: given.update(o), slot, (), {})
    given["error_callback"]("an error")
    assert freed == [1]


def test_a_future_frees_the_slot_though_no_callback_was_called(slot, freed):
    future = Future()
    ThreadPool(_pool()).apply(lambda **o: SimpleNamespace(f=future), slot, (), {"callback": print})
    assert freed == []
    future.set_exception(ValueError())
    assert freed == [1]


def test_a_cancelled_future_frees_the_slot(slot, freed):
    """A warm shutdown cancels what no thread has begun."""
    future = Future()
    ThreadPool(_pool()).apply(lambda **o: SimpleNamespace(f=future), slot, (), {})
    future.cancel()
    assert freed == [1]


def test_a_greenlet_killed_before_it_began_frees_the_slot(slot, freed):
    greenlet = Greenlet()
    GeventPool(_pool()).apply(lambda **o: greenlet, slot, (), {"callback": print})
    greenlet.end()
    assert freed == [1]


def test_a_green_thread_killed_before_it_began_frees_the_slot(slot, freed):
    """eventlet: of those that its pool keeps it is the newest."""
    pool = _pool(_pool_map={1: Greenlet()})
    EventletPool(pool).apply(lambda **o: pool._pool_map.update({2: Greenlet()}), slot, (), {})
    pool._pool_map[1].end()
    assert freed == []
    pool._pool_map[2].end()
    assert freed == [1]


def test_solo_frees_the_slot_when_the_call_returns_or_raises(slots, freed):
    pool, request = SoloPool(_pool()), SimpleNamespace()
    pool.apply(lambda **o: None, slots.take(BATCH, request, 0.0), (), {})

    def broken(**_):
        raise SystemExit

    with pytest.raises(SystemExit):
        pool.apply(broken, slots.take(BATCH, request, 0.0), (), {})
    assert freed == [1, 1]


@pytest.mark.parametrize("adapter", [EventletPool, GeventPool])
def test_a_green_pool_dispatches_from_a_greenlet_of_its_own(adapter):
    """From the one that ends, spawning would wait for the place that it still has."""
    calls, spawner = [], Spawner()
    adapter(spawner).when_freed(lambda: calls.append("pump"), lambda: calls.append("wake"))()
    assert calls == []
    (pump,) = spawner.spawned
    pump()
    assert calls == ["pump"]


@pytest.mark.parametrize(
    ("adapter", "expected"), [(Pool, "pump"), (ThreadPool, "wake"), (SoloPool, "wake")]
)
def test_only_the_loops_own_thread_dispatches_at_once(adapter, expected):
    calls = []
    adapter(_pool()).when_freed(lambda: calls.append("pump"), lambda: calls.append("wake"))()
    assert calls == [expected]


def test_a_flush_frees_what_prefork_had_not_accepted_and_nothing_in_threads(slots, slot, freed):
    ThreadPool(_pool()).on_flushed(slots)
    EventletPool(_pool()).on_flushed(slots)
    assert freed == []
    Pool(_pool()).on_flushed(slots)
    assert freed == [1]
