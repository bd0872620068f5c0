"""The fronts that a worker consumes, as its queues come and go."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_fair.worker.fronts import WorkerFronts


class LostTimer:
    """A timer that is cleared before anything is due, as when a connection is lost."""

    def call_after(self, seconds: float, function: Any) -> None: ...


@pytest.fixture
def c() -> Iterator[Any]:
    """The part of a ``Consumer`` that fronts look at, of a worker started with ``-Q``."""
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.amqp.queues.select(["celery", "extra"])
    with app.connection_for_read() as connection:
        yield SimpleNamespace(
            app=app, connection=connection, timer=LostTimer(), task_consumer=None, call_soon=None
        )
    app.close()


def _consumed(c: Any) -> set[str]:
    return set(c.app.amqp.queues.consume_from)


def test_each_queue_has_its_front(c: Any) -> None:
    WorkerFronts(c).add_all()
    assert _consumed(c) == {"celery", "celery.front", "extra", "extra.front"}


def test_a_front_goes_with_its_queue_though_the_connection_is_lost_meanwhile(c: Any) -> None:
    fronts = WorkerFronts(c)
    fronts.add_all()
    c.app.amqp.queues.deselect(["extra"])
    fronts.changed()
    fronts.add_all()  # on the next connection
    assert _consumed(c) == {"celery", "celery.front"}


def test_a_front_that_is_somebody_s_own_stays(c: Any) -> None:
    c.app.amqp.queues.select(["celery", "shop.front"])
    WorkerFronts(c).add_all()
    assert _consumed(c) == {"celery", "celery.front", "shop.front"}


def test_one_that_was_ours_may_become_somebody_s_own(c: Any) -> None:
    fronts = WorkerFronts(c)
    fronts.add_all()
    c.app.amqp.queues.deselect(["extra"])
    fronts.add_all()
    c.app.amqp.queues.select_add("extra.front")
    fronts.add_all()
    assert _consumed(c) == {"celery", "celery.front", "extra.front"}
