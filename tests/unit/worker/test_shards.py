"""The shards that a worker consumes, as their queues come and go."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_fair import Fair
from celery_fair.sharding.names import shards_of
from celery_fair.worker.shards import WorkerShards

SHARDS = set(shards_of("celery.batch", 3))


@pytest.fixture
def c() -> Iterator[Any]:
    """The part of a ``Consumer`` that is looked at."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    Fair(app, batch_shards=3)
    yield SimpleNamespace(app=app)
    app.close()


def _consumed(c: Any) -> set[str]:
    return set(c.app.amqp.queues.consume_from)


def test_all_are_consumed_by_a_worker_that_names_no_queue(c: Any) -> None:
    WorkerShards(c).add_all()
    assert _consumed(c) == {"celery", "celery.batch", *SHARDS}


def test_a_queue_that_is_only_called_like_a_shard_is_consumed_as_before(c: Any) -> None:
    c.app.amqp.queues.select_add("mail.shard-03")
    WorkerShards(c).add_all()
    assert _consumed(c) == {"celery", "celery.batch", "mail.shard-03", *SHARDS}


def test_a_queue_that_is_named_brings_its_shards(c: Any) -> None:
    c.app.amqp.queues.select(["celery.batch"])
    WorkerShards(c).add_all()
    assert _consumed(c) == {"celery.batch", *SHARDS}


def test_a_queue_that_is_left_out_takes_its_shards_with_it(c: Any) -> None:
    c.app.amqp.queues.deselect(["celery.batch"])
    WorkerShards(c).add_all()
    assert _consumed(c) == {"celery"}


def test_a_shard_may_be_left_out_and_stays_so_on_the_next_connection(c: Any) -> None:
    c.app.amqp.queues.deselect(["celery.batch.shard-01"])
    shards = WorkerShards(c)
    for _ in range(2):
        shards.add_all()
        assert _consumed(c) == {"celery", "celery.batch", *SHARDS} - {"celery.batch.shard-01"}
        assert not list(shards.missing())


def test_a_shard_may_be_named_by_itself(c: Any) -> None:
    c.app.amqp.queues.select(["celery", "celery.batch.shard-01", "celery.batch.shard-07"])
    shards, queues = WorkerShards(c), c.app.amqp.queues
    shards.add_all()
    assert _consumed(c) == {"celery", "celery.batch.shard-01", "celery.batch.shard-07"}
    queues.select_add(queues["celery.batch"])
    assert {shard.name for shard in shards.missing()} == SHARDS - {"celery.batch.shard-01"}


def test_shards_go_with_their_queue_and_come_back_with_it(c: Any) -> None:
    shards, queues = WorkerShards(c), c.app.amqp.queues
    shards.add_all()
    queues.deselect(["celery.batch"])
    assert set(shards.forget_cancelled()) == SHARDS
    queues.select_add(queues["celery.batch"])
    assert {shard.name for shard in shards.missing()} == SHARDS


def test_a_shard_that_somebody_cancels_stays_so(c: Any) -> None:
    shards = WorkerShards(c)
    shards.add_all()
    c.app.amqp.queues.deselect(["celery.batch.shard-01"])
    shards.add_all()  # on the next connection
    assert _consumed(c) == {"celery", "celery.batch", *SHARDS} - {"celery.batch.shard-01"}
