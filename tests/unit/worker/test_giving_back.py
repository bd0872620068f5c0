"""Held messages go back to the broker, or stay where they are if it doesn't take them."""

from __future__ import annotations

from threading import RLock
from types import SimpleNamespace

import pytest

from celery_fair.policy.kinds import BATCH
from celery_fair.worker import giving_back as module
from celery_fair.worker import internals
from celery_fair.worker.clearing.needs import Needs
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.deadlines import Deadlines
from celery_fair.worker.giving_back import REFUSED_SECONDS, GivingBack
from celery_fair.worker.lanes import Lane, make_held
from celery_fair.worker.pausing import Pausing
from celery_fair.worker.windows import Window


class Request:
    """One with a message, whose broker may refuse or be gone."""

    def __init__(self, id, broker):
        self.id, self.acknowledged = id, False
        self.delivery_info = {"routing_key": id.rstrip("0123456789")}
        self.task = SimpleNamespace(name="summarize")
        client = SimpleNamespace(connection_errors=(ConnectionError,))
        channel = SimpleNamespace(connection=SimpleNamespace(client=client))
        self._message = SimpleNamespace(channel=channel, requeue=lambda: broker.take(id))


class Broker:
    def __init__(self):
        self.taken, self.error = [], None

    def take(self, id):
        if self.error is not None:
            raise self.error
        self.taken.append(id)


class Worker:
    def __init__(self, clock):
        self.clock, self.broker = clock, Broker()
        self.lane = Lane(BATCH, now=0.0, scheduled_limit=100)
        for number, id in enumerate(["b1", "b2", "reports1"]):
            self.lane.hold(Request(id, self.broker), number, number, 0.0)
        Pausing().change({BATCH: self.lane}, frozenset([BATCH]), frozenset(["reports"]))
        self.window = Window(self.lane, None)
        self.window.can_give_back = lambda message: True
        probing = SimpleNamespace(deadlines=Deadlines({}))
        self.giving_back = GivingBack(RLock(), probing)

    def tick(self):
        self.giving_back.overdue({BATCH: self.lane}, {BATCH: self.window}, 30.0, 60.0)

    @property
    def held(self):
        return [[one.request.id for one in line] for line in (self.lane.held, self.lane.aside)]


@pytest.fixture
def worker(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    return Worker(clock)


def test_what_is_paused_goes_back_the_oldest_last_where_it_goes_to_the_front(worker):
    worker.window.gives_back_to_the_front = True
    worker.tick()
    assert worker.broker.taken == ["b2", "b1", "reports1"]
    assert worker.held == [[], []]


def test_what_a_full_broker_refuses_stays_held_and_is_tried_again_later(worker, caplog):
    worker.broker.error = RuntimeError("OOM command not allowed")
    for _ in range(3):
        worker.tick()
        worker.clock.now += REFUSED_SECONDS / 10
    assert worker.held == [["b1", "b2"], ["reports1"]]
    assert [one.request.acknowledged for one in worker.lane.held] == [False, False]
    assert internals.is_known(worker.lane.held[0].request), "the one that was tried"
    assert caplog.text.count("takes back nothing now") == 2, "once for each of its lines"
    worker.broker.error = None
    worker.clock.now += REFUSED_SECONDS
    worker.tick()
    assert worker.broker.taken == ["b1", "b2", "reports1"]
    assert worker.held == [[], []]


def test_what_was_held_over_a_lost_connection_is_held_no_more(worker):
    """Its broker gives it out again."""
    worker.broker.error = ConnectionResetError("by peer")
    with pytest.raises(ConnectionResetError):
        worker.tick()
    assert worker.held == [[], []]


def test_what_has_its_place_by_now_does_not_go_back(worker):
    """A timer's thread has found it while it waited, and the consumer's has cleared it since."""
    lane, request = worker.lane, Request("b9", worker.broker)
    waiting = Waiting(lane, make_held(request, 9.0, 9.0, 0.0), Needs(("gpu",), 0, False))
    lane.put_off(waiting)
    lane.clear(waiting, 0.0)
    worker.giving_back.uncleared(lane, worker.window, [waiting], 60.0)
    assert worker.broker.taken == []
    assert request in [held.request for held in lane]
