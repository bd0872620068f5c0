"""A task that prefork's child begins as its worker stops: begun once, and known to have begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from celery.concurrency.prefork import TaskPool
from kombu.asynchronous import Hub, get_event_loop, set_event_loop

from celery_fair.worker import internals
from tests.brokers.waiting import wait_until


@pytest.fixture
def hub() -> Iterator[Hub]:
    before, hub = get_event_loop(), Hub()
    set_event_loop(hub)
    yield hub
    set_event_loop(before)
    hub.close()


@pytest.fixture
def pool(hub: Hub) -> Iterator[TaskPool]:
    """Of one process, as a worker has it; its loop turns where a test says so."""
    app = Celery("begins", set_as_current=False)
    pool = TaskPool(1, app=app, initargs=(app, "w1@test"), threads=False)
    pool.start()
    pool.register_with_event_loop(hub)
    yield pool
    pool.terminate()
    app.close()


def say(path: str, word: str) -> str:
    Path(path).touch()
    return word


@pytest.mark.parametrize("length", [5, 300_000])
def test_what_a_child_has_begun_is_known_though_the_loop_has_ended(pool, hub, tmp_path, length):
    """A flush would drop it, its message run again, and its child wait for half a minute."""
    begun, accepted, results = tmp_path / "begun", [], []
    job = pool.apply_async(
        say, (str(begun), "a" * length), accept_callback=lambda *said: accepted.append(said),
        callback=results.append,
    )  # fmt: skip
    wait_until(lambda: hub.run_once() or job._write_to, "the task to be written", poll_seconds=0)
    if length < 65_536:  # else its end is still to be written
        wait_until(begun.exists, "the task to begin")
    assert not accepted
    internals.hear_what_has_begun(pool, hub)
    assert len(accepted) == 1
    with internals.running_jobs_kept(pool):  # as the worker's on_close has it
        pool.flush()
    pool.stop()
    assert results == ["a" * length]
