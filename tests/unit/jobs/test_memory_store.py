"""Jobs in memory, held to the contract of all stores."""

from __future__ import annotations

import pytest
from hypothesis import settings

from celery_fair.errors import JobNotFound
from celery_fair.jobs.keeping import OPEN_SECONDS
from celery_fair.jobs.memory_store import MemoryStore
from tests.jobs.contract import *  # noqa: F403
from tests.jobs.contract import LEASE, TASK, claim, run
from tests.jobs.machine import JobMachine
from tests.jobs.walk import walk

TestMemoryStore = JobMachine.TestCase
TestMemoryStore.settings = settings(max_examples=50, stateful_step_count=40)


def test_whatever_is_asked_in_whatever_order_counts_are_exact():
    for seed in range(150):
        walk(JobMachine, seed)


@pytest.fixture
def store(clock):
    return MemoryStore(clock)


def test_an_ended_job_is_kept_for_its_time(store, submit, clock):
    submit(4, keep_seconds=60.0)
    run(store)
    clock.now += 59
    store.progress("j")
    clock.now += 1
    with pytest.raises(JobNotFound):
        store.progress("j")
    assert store.list() == []


def test_an_open_job_is_kept_much_longer(store, submit, clock):
    submit(4, keep_seconds=60.0)
    clock.now += OPEN_SECONDS
    assert isinstance(claim(store), tuple)
    clock.now += OPEN_SECONDS + 61
    assert store.claim("j", "t", LEASE).reason == "unknown"
    assert store.overdue([TASK]) == []
