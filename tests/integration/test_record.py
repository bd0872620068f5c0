"""The stream in which workers record, on a real Redis: in order, bounded, and gone in the end."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from redis import Redis

from celery_fair.internals import Connected
from celery_fair.record.stream import FIRST, KEPT_SECONDS, SIZE, STREAM, Stream, last_place, read_on
from celery_fair.state import State

PREFIX = "app:"


@pytest.fixture(params=[False, True], ids=["bytes", "decoded"])
def client(request, redis_url) -> Iterator[Redis]:
    with Redis.from_url(redis_url, decode_responses=request.param) as client:
        yield client


@pytest.fixture
def state(client) -> State:
    return State(lambda: Connected(client, PREFIX, lambda: None))


def test_who_reads_on_has_each_batch_once_and_nothing_from_before(client, state):
    stream = Stream(lambda: state, 1_000_000)
    assert last_place(state) == FIRST
    stream.write(b"before")
    place = last_place(state)
    assert read_on(state, place) == []
    stream.write(b"one")
    stream.write(b"two")
    first, second = read_on(state, place)
    assert (first.batch, second.batch) == (b"one", b"two")
    assert read_on(state, second.place) == []
    for key in (STREAM, SIZE):
        assert 0 < client.ttl(PREFIX + key) <= KEPT_SECONDS


def test_the_oldest_go_as_the_limit_is_reached(client, state):
    limit, source = 50_000, Random(1)
    stream = Stream(lambda: state, limit)
    for _ in range(40):
        stream.write(source.randbytes(3_000))
    kept = client.xrange(PREFIX + STREAM)
    sizes = [len(next(iter(fields.values()))) for _, fields in kept]
    assert limit / 2 < sum(sizes) <= limit
    assert int(client.get(PREFIX + SIZE)) == sum(sizes)


def test_a_size_that_was_lost_is_counted_anew(client, state):
    stream = Stream(lambda: state, 10_000)
    client.set(PREFIX + SIZE, 10**9)
    stream.write(b"one")
    stream.write(b"two")
    assert [entry.batch for entry in read_on(state, FIRST)] == [b"two"]


def test_an_entry_of_nobody_knows_whom_is_read_as_nothing(client, state):
    client.xadd(PREFIX + STREAM, {"d": "nonsense"})
    assert [entry.batch for entry in read_on(state, FIRST)] == [b""]
