"""The sensor: asks seldom, never waits, and would rather know nothing than something wrong."""

from __future__ import annotations

import itertools
import logging
import os
import random
import socket
from collections.abc import Iterator

import pytest
from kombu.asynchronous import Hub

from celery_fair.worker import sensor as module
from celery_fair.worker.links import Answer
from celery_fair.worker.sensor import GIVE_UP_SECONDS, STALE_SECONDS, Sensor

INTERVAL = 0.25
QUEUES = ["celery", "celery.batch"]


class FakeLink:
    """Answers at the next look, with what the test has put there."""

    answers_at_once = False
    has_members = True
    speaks_unasked = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.descriptor = world.descriptor
        self.left: list[str] = []
        if world.refuses:
            raise ConnectionError("refused")
        world.links.append(self)

    def ask(self, queues, member):
        self.world.asked.append((tuple(queues), member))
        if self.world.breaks:
            raise ConnectionError("reset")

    def fileno(self):
        return self.descriptor

    def receive(self, timeout_seconds=0.0):
        if self.world.breaks:
            raise ConnectionError("reset")
        return self.world.answer

    def leave(self, name):
        self.left.append(name)

    def forget(self, names):
        self.left.extend(names)

    def close(self):
        self.world.closed += 1


class FakeHub:
    """Calls readers when the test says that their descriptor is readable."""

    def __init__(self) -> None:
        self.readers = {}

    def add_reader(self, fileno, callback):
        self.readers[fileno] = callback

    def remove(self, fileno):
        del self.readers[fileno]


class World:
    """The broker as the link sees it, and the sensor's clock."""

    def __init__(self, monkeypatch, descriptor: int) -> None:
        self.now = 1000.0
        self.asked: list = []
        self.links: list[FakeLink] = []
        self.closed = 0
        self.descriptor = descriptor
        self.refuses = self.breaks = False
        self.answer: Answer | None = Answer({"celery": 3, "celery.batch": 40}, {})
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        monkeypatch.setattr(random, "uniform", lambda low, high: high)
        self.hub = FakeHub()
        self.sensor = Sensor(lambda: FakeLink(self), INTERVAL)
        self.sensor.attach(self.hub)

    def tick(self, seconds: float = 0.1, *, urgent: bool = True, member=None) -> bool:
        self.now += seconds
        return self.sensor.tick(QUEUES, self.now, urgent=urgent, member=member)

    def answered(self) -> None:
        """The link's descriptor is readable."""
        for reader in list(self.hub.readers.values()):
            reader()

    def asks_and_hears(self, seconds: float = 0.1, *, urgent: bool = True) -> None:
        if self.tick(seconds, urgent=urgent):
            self.answered()

    def count(self, *queues: str) -> int | None:
        return self.sensor.count(queues or QUEUES, self.now)


@pytest.fixture
def world(monkeypatch) -> Iterator[World]:
    with open(os.devnull) as readable:
        yield World(monkeypatch, readable.fileno())


def test_before_the_first_answer_nothing_is_known(world):
    assert world.count() is None
    world.tick()
    assert world.count() is None


def test_an_answer_is_read_when_it_has_come(world):
    world.tick()
    world.answered()
    assert world.count() == 43
    assert world.count("celery") == 3
    assert world.count("other") == 0


def test_while_a_question_is_open_there_is_no_second_one(world):
    assert world.tick()
    assert not any(world.tick(0.3) for _ in range(10))
    assert len(world.asked) == 1


def test_it_asks_at_most_once_an_interval(world):
    for _ in range(100):
        world.asks_and_hears(0.01)
    assert 1 <= len(world.asked) <= 1 + 1.0 / INTERVAL


def test_while_nothing_changes_it_asks_less_and_less_often_unless_it_is_urgent(world):
    def asked(seconds: float, urgent: bool) -> int:
        before = len(world.asked)
        for _ in range(int(seconds / 0.05)):
            world.asks_and_hears(0.05, urgent=urgent)
        return len(world.asked) - before

    asked(10, urgent=False)
    idle = asked(10, urgent=False)
    assert idle <= 10 / INTERVAL / 4
    assert asked(10, urgent=True) >= 3 * idle


def test_a_count_that_is_too_old_is_no_count(world):
    world.tick()
    world.answered()
    world.now += STALE_SECONDS
    assert world.count() == 43
    world.now += 0.01
    assert world.count() is None


def test_an_answer_that_is_not_complete_is_waited_for(world):
    whole, world.answer = world.answer, None
    world.tick()
    world.answered()
    assert world.count() is None
    world.answer = whole
    world.answered()
    assert world.count() == 43


def test_a_broker_that_never_answers_is_given_up(world):
    world.tick()
    world.tick(GIVE_UP_SECONDS + 0.1)
    assert (world.sensor.failures, world.closed) == (1, 1)
    assert world.hub.readers == {}


def test_failures_are_paused_after_for_longer_and_longer_and_logged_once(world, caplog):
    world.refuses = True
    attempts = []
    with caplog.at_level(logging.WARNING):
        for _ in range(600):
            before = world.sensor.failures
            world.tick()
            if world.sensor.failures > before:
                attempts.append(world.now)
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 1.0
    assert len(caplog.records) == 1


def test_a_pause_holds_even_for_a_word_to_the_fleet(world):
    world.refuses = True
    world.tick()
    assert not world.tick(0.1, member=("me", "word"))


def test_a_word_to_the_fleet_does_not_wait_for_the_next_reading(world):
    world.tick()
    world.answered()
    assert world.tick(0.01, urgent=False, member=("me", "word"))
    assert world.asked[-1] == (tuple(QUEUES), ("me", "word"))


def test_after_a_failure_it_reads_again_over_a_new_link(world):
    world.tick()
    world.answered()
    world.breaks = True
    world.tick(1.0)
    world.breaks = False
    for _ in range(30):
        world.asks_and_hears()
    assert len(world.links) == 2
    assert world.closed == 1
    assert world.count() == 43


def test_a_link_that_is_closed_while_nobody_asks_is_made_anew_in_silence(world, caplog):
    """A server closes idle clients after its ``timeout``: nothing was to be read from it."""
    world.tick()
    world.answered()
    world.answered()
    assert (world.sensor.failures, world.closed, world.hub.readers) == (0, 1, {})
    assert world.tick(1.0)
    assert len(world.links) == 2
    assert not caplog.records


def test_what_was_heard_is_passed_on(world):
    heard = []
    world.sensor.on_answer = heard.append
    world.tick()
    world.answered()
    assert heard == [world.answer]


@pytest.mark.parametrize("verb", ["leave", "forget"])
def test_leaving_the_fleet_needs_a_link_and_never_fails(world, verb):
    argument = "me" if verb == "leave" else ["me"]
    getattr(world.sensor, verb)(argument)
    world.tick()
    world.sensor.forget([])
    getattr(world.sensor, verb)(argument)
    assert world.links[0].left == ["me"]
    setattr(world.links[0], verb, lambda argument: 1 / 0)
    getattr(world.sensor, verb)(argument)


def test_a_green_worker_asks_and_waits_in_a_greenlet(world):
    spawned = []
    world.sensor = Sensor(lambda: FakeLink(world), INTERVAL)
    world.sensor.spawn_with(spawned.append)
    world.tick()
    assert world.asked == []
    spawned.pop()()
    assert world.count() == 43


def test_closing_takes_the_reader_out_of_the_loop(world):
    world.tick()
    assert len(world.hub.readers) == 1
    world.sensor.close()
    assert world.hub.readers == {}


def test_a_lost_connection_that_a_forked_child_still_has_is_watched_no_more(world):
    """Else epoll tells of it for as long as the child lives, under the number of the next link."""
    near, far = socket.socketpair()
    inherited = os.dup(near.fileno())
    world.descriptor, world.hub = near.fileno(), Hub()
    world.sensor.attach(world.hub)
    world.tick()
    assert not world.hub.poller.poll(0)

    def ask(queues, member):
        far.close()
        near.close()  # as a client library does, before anybody is told
        raise ConnectionError("reset")

    world.links[0].ask = ask
    world.sensor._on_readable()
    world.tick(10)
    assert world.sensor.failures == 1
    assert not world.hub.poller.poll(0)
    os.close(inherited)
    world.hub.close()
