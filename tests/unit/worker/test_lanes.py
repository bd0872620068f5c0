"""A lane: what it holds, in which order, and how much more it may take."""

from __future__ import annotations

import math

from celery_fair.policy.kinds import BATCH
from celery_fair.worker.lanes import DOUBT_SECONDS, Lane

NOW = 1000.0


def _lane(credit: int = 0, scheduled_limit: int = 1000) -> Lane:
    lane = Lane(BATCH, now=0.0, scheduled_limit=scheduled_limit)
    lane.grant(credit, now=0.0)
    return lane


def _hold(lane: Lane, *names: str, published: float = 0.0, now: float = 0.0) -> None:
    for name in names:
        lane.hold(name, published, published, now)


def _taken(lane: Lane) -> list[str]:
    return [lane.take(0.0).request for _ in range(len(lane))]


def test_the_message_published_first_is_taken_first():
    lane = _lane()
    _hold(lane, "late", published=3.0)
    _hold(lane, "early", published=1.0)
    _hold(lane, "middle", published=2.0)
    assert _taken(lane) == ["early", "middle", "late"]


def test_messages_published_at_the_same_time_keep_the_order_of_arrival():
    lane = _lane()
    _hold(lane, "z", "a", "m", published=1.0)
    assert _taken(lane) == ["z", "a", "m"]


def test_requests_that_cannot_be_compared_are_never_compared():
    lane = _lane()
    for _ in range(3):
        lane.hold(object(), 1.0, None, 0.0)
    assert len(_taken(lane)) == 3


def test_held_and_rate_limited_messages_use_up_the_credit():
    lane = _lane(credit=5)
    _hold(lane, "one", "two")
    lane.limited = 2
    assert lane.waiting == 4
    assert lane.room() == 1


def test_scheduled_messages_use_no_credit_up_to_their_limit():
    lane = _lane(credit=2, scheduled_limit=30)
    lane.scheduled = 29
    assert lane.room() == 2
    lane.scheduled = 30
    assert lane.room() == 0


def test_a_lane_is_empty_when_it_had_room_and_heard_nothing_for_a_round_trip():
    lane = _lane(credit=1)
    assert not lane.is_empty(0.004, round_trip_seconds=0.005)
    assert lane.is_empty(0.005, round_trip_seconds=0.005)


def test_a_lane_that_contradicts_the_last_count_must_be_silent_for_longer():
    lane = _lane(credit=1)
    lane.doubtful = True
    assert not lane.is_empty(0.05, round_trip_seconds=0.005)
    assert lane.is_empty(DOUBT_SECONDS, round_trip_seconds=0.005)
    assert not lane.is_empty(DOUBT_SECONDS, round_trip_seconds=0.2)


def test_a_lane_without_room_knows_nothing_of_the_broker():
    assert not _lane(credit=0).is_empty(100.0, round_trip_seconds=0.005)


def test_behind_a_rate_limit_waits_no_more_than_its_limit_whatever_the_credit():
    lane = Lane(BATCH, now=0.0, scheduled_limit=10, limited_limit=3)
    lane.grant(50, now=0.0)
    assert lane.room() == 50
    lane.limited = 1
    assert lane.room() == 2
    lane.limited = 2
    assert lane.room() == 1
    lane.limited = 3
    assert lane.room() == 0


def test_a_lane_that_holds_something_is_not_empty():
    lane = _lane(credit=5)
    _hold(lane, "one")
    assert not lane.is_empty(100.0, round_trip_seconds=0.005)


def test_the_broker_is_asked_anew_when_credit_comes_back():
    lane = _lane(credit=1)
    lane.grant(0, now=5.0)
    lane.grant(1, now=10.0)
    assert not lane.is_empty(10.004, round_trip_seconds=0.005)
    assert lane.is_empty(10.006, round_trip_seconds=0.005)


def test_more_credit_for_a_lane_that_had_room_is_no_new_question():
    lane = _lane(credit=1)
    lane.grant(3, now=10.0)
    assert lane.is_empty(10.0, round_trip_seconds=0.005)


def test_the_broker_is_asked_anew_when_a_full_lane_gives_a_message_up():
    lane = _lane(credit=1)
    _hold(lane, "one")
    lane.take(7.0)
    assert not lane.is_empty(7.004, round_trip_seconds=0.005)
    assert lane.is_empty(7.006, round_trip_seconds=0.005)


def test_only_what_was_received_before_is_overdue_and_the_rest_keeps_its_order():
    lane = _lane()
    _hold(lane, "old", published=5.0, now=1.0)
    _hold(lane, "young late", published=4.0, now=3.0)
    _hold(lane, "young early", published=2.0, now=3.0)
    assert lane.take_held_before(2.0, lambda held: False) == []
    assert [held.request for held in lane.take_held_before(2.0, lambda held: True)] == ["old"]
    assert _taken(lane) == ["young early", "young late"]


def test_the_oldest_of_a_lane():
    lane = _lane()
    assert lane.oldest_received_at() is None
    assert lane.oldest_ready_at() is None
    lane.hold("one", 1.0, 50.0, 9.0)
    lane.hold("two", 0.0, None, 8.0)
    assert lane.oldest_received_at() == 8.0
    assert lane.oldest_ready_at() == 50.0


def test_a_closed_lane_holds_nothing_and_takes_nothing():
    lane = _lane(credit=4)
    _hold(lane, "one")
    lane.limited = lane.scheduled = 1
    lane.close()
    assert (len(lane), lane.waiting, lane.room(), lane.scheduled, lane.alive) == (0, 0, 0, 0, False)
    assert not lane.is_empty(100.0, round_trip_seconds=0.005)


def test_what_may_wait_for_ever_is_never_looked_for_as_overdue():
    lane = Lane(BATCH, NOW, 10)  # its queue has never been seen empty
    assert not lane.may_be_overdue(math.inf, NOW)
    assert lane.may_be_overdue(5.0, NOW)


def test_after_a_lane_was_seen_empty_nothing_is_overdue_for_as_long_as_it_may_wait():
    lane = Lane(BATCH, NOW, 10)
    lane.empty_at = NOW
    assert not lane.may_be_overdue(5.0, NOW + 4.9)
    assert lane.may_be_overdue(5.0, NOW + 5.0)
    lane.probe_at = NOW + 7.0  # a look has found one that may wait until then
    assert not lane.may_be_overdue(5.0, NOW + 6.9)
    assert lane.may_be_overdue(5.0, NOW + 7.0)
