"""Joining a fleet, losing sight of it, and what a thousand workers cost that start together."""

from __future__ import annotations

import heapq
import json
import random
from types import SimpleNamespace

import pytest

from celery_fair.policy import BATCH, Policy, PolicySettings
from celery_fair.policy.kinds import KINDS
from celery_fair.worker import measuring as module
from celery_fair.worker.fleet import LOST_AFTER, MEMBERS_A_SECOND, Fleet, digest
from celery_fair.worker.links import Answer
from celery_fair.worker.measuring import (
    ALONE_SECONDS,
    JOIN_SECONDS,
    NEWS,
    NEWS_SECONDS,
    Measuring,
)

QUEUES = ["celery", "celery.batch"]


class FakeSensor:
    """Takes questions down; a test answers them."""

    latency_seconds = 0.001
    read_at = 0.0
    failures = 0

    def __init__(self, *_):
        self.words: list[tuple[str, str] | None] = []
        self.forgotten: list[str] = []
        self.is_up = True

    def tick(self, queues, now, *, urgent, member):
        if self.is_up:
            self.words.append(member)
        return self.is_up

    def forget(self, names):
        self.forgotten += names


class Place:
    """One worker's measuring, its clock, and the words of others."""

    def __init__(self, monkeypatch, *, has_members=True, slots=1) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        monkeypatch.setattr(module, "Sensor", FakeSensor)
        monkeypatch.setattr(
            module,
            "link_type",
            lambda _: SimpleNamespace(has_members=has_members, words_a_second=50_000),
        )
        self.policy = Policy(PolicySettings(reserve=0), slots=slots, now=self.now)
        c = SimpleNamespace(hostname="me", connection=None, hub=object())
        self.measuring = Measuring(c, self.policy, 0.25, lambda seconds: None)
        self.sensor = self.measuring.sensor
        self.others: dict[str, Fleet] = {}
        self.board: dict[str, str] = {}
        self.measuring.connect()

    def tick(self, seconds=0.1):
        self.now += seconds
        self.measuring.tick(QUEUES, self.now, interactive_empty=True, batch_empty=True)
        return self.sensor.words[-1] if self.sensor.words else None

    def answer(self, *, complete=True, company=0, words=True):
        """As a link does: its first answer has no words, and where all are pushed, no echo."""
        word, first = self.sensor.words[-1], len(self.sensor.words) == 1
        if word is not None and (complete or not first):
            self.board[word[0]] = word[1]
        members = {} if first or not words else dict(self.board)
        self.sensor.read_at = self.now
        self.measuring._on_answer(Answer({}, members, complete and bool(members), company))

    def speak(self, *names):
        for name in names:
            fleet = self.others.setdefault(name, Fleet(name))
            self.board[name] = fleet.word(self.policy.member(name), QUEUES)

    @property
    def starts_batch(self) -> bool:
        return self.policy.pick(0, 1, self.now) == BATCH


@pytest.fixture
def place(monkeypatch):
    return Place(monkeypatch)


def test_in_a_small_fleet_it_speaks_as_soon_as_heads_are_counted(place):
    place.tick()
    place.answer(company=3)
    place.tick()
    assert len(place.sensor.words) == 2


def test_in_a_large_fleet_it_speaks_some_time_within_its_round(place, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda least, most: (least + most) / 2)
    place.tick()
    place.answer(company=200)
    place.tick()
    assert len(place.sensor.words) == 1
    place.tick(4.0)
    assert len(place.sensor.words) == 2


def test_what_waits_here_for_a_place_is_told_before_its_time_but_once(place, monkeypatch):
    """Publishers miss what has left the broker until it is told."""
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    waiting = dict.fromkeys(KINDS, 0)
    place.measuring.uncleared = lambda: waiting
    in_a_fleet(place)
    place.tick(2.0)
    said = len(place.sensor.words)
    waiting[BATCH] = NEWS - 1
    place.tick(NEWS_SECONDS)
    assert len(place.sensor.words) == said
    waiting[BATCH] = NEWS
    assert json.loads(place.tick()[1])["uncleared"][BATCH] == NEWS
    assert len(place.sensor.words) == said + 1
    waiting[BATCH] = 64
    place.tick(NEWS_SECONDS)
    assert len(place.sensor.words) == said + 1
    assert json.loads(place.tick(1.0)[1])["uncleared"][BATCH] == 64


def test_an_order_is_told_at_once_and_once(place):
    """Else a worker that begins just then takes the last word for all that there is to know."""
    place.measuring.orders = SimpleNamespace(version="", is_behind=lambda: False)
    in_a_fleet(place)
    place.tick(2.0)
    said = len(place.sensor.words)
    place.measuring.orders.version = "1:aa"
    assert json.loads(place.tick(0.01)[1])["orders"] == "1:aa"
    assert len(place.sensor.words) == said + 1
    place.tick(0.01)
    assert len(place.sensor.words) == said + 1


def test_an_order_that_could_not_be_told_is_told_at_the_next_tick(place):
    place.measuring.orders = SimpleNamespace(version="", is_behind=lambda: False)
    in_a_fleet(place)
    place.tick(2.0)
    place.measuring.orders.version = "1:aa"
    place.sensor.is_up = False
    place.tick(0.01)
    place.sensor.is_up = True
    assert json.loads(place.tick(0.01)[1])["orders"] == "1:aa"


def test_over_a_new_link_it_counts_heads_again(place, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    in_a_fleet(place)
    place.sensor.failures += 1
    place.tick(0.1)
    place.answer(company=200, words=False)
    asked = len(place.sensor.words)
    place.tick(0.1)
    assert len(place.sensor.words) == asked


def test_alone_it_starts_batch_with_the_first_answer(place):
    place.tick()
    assert not place.starts_batch
    place.answer(company=0)
    assert place.starts_batch


def test_with_others_it_starts_batch_when_it_has_heard_them(place):
    place.speak("a")
    place.tick()
    place.answer(company=1)
    assert not place.starts_batch
    place.tick()
    place.answer(company=1)
    assert not place.policy.listening
    assert place.policy.view(place.now).fleet_workers == 2


def test_where_words_come_by_themselves_it_waits_for_as_many_as_there_are_workers(place):
    place.tick()
    place.answer(complete=False, company=2)
    place.tick()
    place.answer(complete=False, company=2)
    assert not place.starts_batch
    place.speak("a", "b")
    place.tick()
    place.answer(complete=False, company=2)
    assert place.starts_batch


def test_others_that_never_speak_are_waited_for_only_so_long(place):
    place.tick()
    place.answer(complete=False, company=2)
    place.tick(JOIN_SECONDS + 0.1)
    assert place.starts_batch


def test_a_sensor_without_a_connection_holds_batch_up_only_so_long(place):
    place.sensor.is_up = False
    place.tick()
    assert not place.starts_batch
    place.tick(JOIN_SECONDS + 0.1)
    assert place.starts_batch


def test_where_members_are_not_heard_it_waits_for_nobody(monkeypatch, caplog):
    place = Place(monkeypatch, has_members=False)
    assert place.starts_batch
    place.tick(2 * ALONE_SECONDS)
    assert not caplog.messages


def in_a_fleet(place):
    place.speak("a", "z")
    place.tick()
    place.answer(company=2)
    place.tick()
    place.answer(company=2)
    assert place.policy.view(place.now).fleet_workers == 3


@pytest.mark.parametrize("is_up", [True, False], ids=["words unread", "sensor away"])
def test_a_view_that_ages_is_lost_whether_the_sensor_reads_or_not(place, is_up, caplog):
    """Without a look at the tick, a sensor that is away left the last view in force for good."""
    in_a_fleet(place)
    place.sensor.is_up = is_up
    for _ in range(int(LOST_AFTER + 2)):
        place.tick(1.0)
        if is_up:
            place.answer(words=False)
    assert place.policy._place.cut_off is not is_up
    view = place.policy.view(place.now)
    assert (view.fleet_in_sight, view.fleet_workers) == (False, 3)
    assert place.measuring.fleet_workers == 3  # what it holds, others may still take
    assert [m for m in caplog.messages if "out of sight" in m] == caplog.messages
    assert len(caplog.messages) == 1


def test_a_view_that_is_back_is_said(place, caplog):
    in_a_fleet(place)
    place.tick(LOST_AFTER + 1.0)
    place.speak("a", "z")
    caplog.set_level("INFO")
    place.tick(2.0)
    place.answer()
    place.tick(0.3)
    assert place.policy.view(place.now).fleet_in_sight
    assert "celery-fair: the fleet is in sight, 3 workers" in caplog.messages


def test_a_worker_that_has_never_had_a_view_says_so(place, caplog):
    place.tick()
    place.answer(company=None)
    place.tick(ALONE_SECONDS + 0.1)
    place.tick(1.0)
    assert len(caplog.messages) == 1
    assert "no view of the fleet" in caplog.messages[0]


def test_words_of_the_dead_are_removed_by_one_and_not_by_all_at_once(monkeypatch):
    thresholds = {Place(monkeypatch).measuring._forget_seconds for _ in range(20)}
    assert len(thresholds) == 20
    place = Place(monkeypatch)
    in_a_fleet(place)
    for _ in range(250):
        place.tick(1.0)
        place.answer()
    assert {"a", "z"} <= set(place.sensor.forgotten)


# many


class Crowd:
    """Workers of one fleet that start together, on a broker that counts what it delivers."""

    def __init__(self, monkeypatch, count: int, *, fanout: bool) -> None:
        self.fanout = fanout
        self.places = [Place(monkeypatch) for _ in range(count)]
        for number, place in enumerate(self.places):
            place.measuring.fleet.name = f"worker{number:04d}@host"
        self.board: dict[str, str] = {}
        self.read: list[tuple[float, int]] = []
        self.said: list[float] = []

    def run(self, seconds: float) -> None:
        """Each worker ticks ten times a second; its questions are answered at once."""
        count = len(self.places)
        queue = [(random.uniform(0.0, 0.1), number) for number in range(count)]
        heapq.heapify(queue)
        while queue[0][0] < seconds:
            now, number = heapq.heappop(queue)
            self._tick(self.places[number], now)
            heapq.heappush(queue, (now + 0.1, number))

    def _tick(self, place: Place, now: float) -> None:
        place.now = 1000.0 + now
        module.monotonic = lambda: place.now
        asked = len(place.sensor.words)
        place.tick(0.0)
        if len(place.sensor.words) == asked:
            return
        word, first = place.sensor.words.pop(), not place.sensor.words
        place.sensor.words.append(None)
        place.sensor.read_at = place.now
        if word is not None and not (first and self.fanout):
            self.said.append(now)
            self.board[word[0]] = word[1]
        company = (len(self.places) if self.fanout else len(self.board)) - 1
        # A fanout reaches all; here each hears at its next look, and the cost counts at once.
        members = {} if first or (word is None and not self.fanout) else dict(self.board)
        if word is not None and not first:
            self.read.append((now, len(self.places) if self.fanout else len(self.board)))
        place.measuring._on_answer(Answer({}, members, bool(members) and not self.fanout, company))

    def words_a_second(self, start: float, end: float) -> float:
        """Words delivered to each worker a second."""
        words = sum(words for at, words in self.read if start <= at < end)
        return words / (end - start) / len(self.places)


@pytest.mark.parametrize("fanout", [False, True], ids=["redis", "rabbitmq"])
@pytest.mark.parametrize("count", [4, 200])
def test_a_fleet_that_starts_together_causes_no_storm(monkeypatch, count, fanout):
    """Without the first look each of 200 would hear 200 words in the same tenth of a second."""
    random.seed(7)
    monkeypatch.setattr(Fleet, "view", lambda *_: None)  # nine sums over all, of no interest here
    crowd = Crowd(monkeypatch, count, fanout=fanout)
    crowd.run(12.0)
    most = max(crowd.words_a_second(second / 2, second / 2 + 1.0) for second in range(22))
    assert most <= 3.5 * min(MEMBERS_A_SECOND, count)
    assert crowd.words_a_second(6.0, 12.0) <= 1.25 * min(MEMBERS_A_SECOND, count)
    assert {len(place.measuring.fleet._last) for place in crowd.places} == {count}


def test_it_starts_no_batch_while_others_know_orders_that_have_not_come(place):
    known = place.measuring.orders = SimpleNamespace(version="", is_behind=lambda: True)
    place.speak("other")
    place.tick()
    place.answer(company=1)
    place.tick()
    place.answer(company=1)
    assert place.policy.listening, "batch may be paused"
    known.is_behind = lambda: False
    place.tick(1.0)
    place.answer(company=1)
    assert not place.policy.listening


def test_a_worker_with_a_kind_paused_is_of_the_fleet_of_those_who_dont_serve_it(place):
    place.tick()
    place.answer()
    place.now += 2.0
    place.measuring.tick(
        QUEUES, place.now, interactive_empty=True, batch_empty=True, serves=QUEUES[:1]
    )
    spoken = json.loads(place.sensor.words[-1][1])
    assert spoken["queues"] == digest(QUEUES[:1])
