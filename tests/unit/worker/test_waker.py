"""The waker: the loop is woken soon, once, and again."""

from __future__ import annotations

import select
import threading

import pytest

from celery_fair.worker.waker import Waker


@pytest.fixture
def calls():
    return []


@pytest.fixture
def waker(calls):
    waker = Waker(lambda: calls.append(1))
    yield waker
    waker.close()


def _is_readable(waker) -> bool:
    return bool(select.select([waker.fileno()], [], [], 0)[0])


def test_nobody_is_woken_unasked(waker):
    assert not _is_readable(waker)


def test_many_wakes_are_one_call(waker, calls):
    for _ in range(1000):
        waker.wake()
    assert _is_readable(waker)
    waker.on_readable()
    assert calls == [1]
    assert not _is_readable(waker)


def test_it_wakes_again_after_it_has_woken(waker, calls):
    for _ in range(3):
        waker.wake()
        waker.on_readable()
    assert calls == [1, 1, 1]


def test_a_wake_from_within_the_callback_is_not_lost(waker):
    """A pump that starts one task a turn asks for the next turn like this."""
    waker._awake = waker.wake
    waker.wake()
    waker.on_readable()
    assert _is_readable(waker)


def test_draining_takes_a_wake_without_a_call(waker, calls):
    waker.drain()
    waker.wake()
    waker.drain()
    assert not _is_readable(waker)
    assert calls == []
    waker.wake()
    assert _is_readable(waker)


def test_threads_may_wake_it(waker, calls):
    threads = [threading.Thread(target=waker.wake) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waker.on_readable()
    assert calls == [1]


def test_a_wake_after_the_worker_has_ended_does_no_harm(calls):
    waker = Waker(lambda: calls.append(1))
    waker.close()
    waker.wake()
