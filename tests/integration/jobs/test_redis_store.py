"""Jobs in a real Redis, held to the contract of all stores, and to what memory answers."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from redis import Redis

from celery_fair.internals import Connected
from celery_fair.jobs.redis_store import RedisStore
from celery_fair.state import State
from tests.jobs.machine import JobMachine


@pytest.fixture
def client(redis_url):
    with Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def state(client):
    return State(lambda: Connected(client, "app:", lambda: None))


def test_redis_answers_as_memory_does_whatever_is_asked(client, state):
    class Lockstep(JobMachine):
        def make_stores(self):
            client.flushdb()
            kept = RedisStore(state, now=lambda: self.now, make_id=self.ids())
            return [self.memory(), kept]

    run_state_machine_as_test(Lockstep, settings=settings(max_examples=30, stateful_step_count=40))
