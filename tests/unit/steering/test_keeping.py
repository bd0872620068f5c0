"""Orders in the state's Redis: only a newer one replaces one, whoever writes first."""

from __future__ import annotations

import fakeredis
import pytest

from celery_fair.state import State
from celery_fair.steering import EVERYBODY, Order
from celery_fair.steering.keeping import KEY, kept_orders, merge_call, overruled


@pytest.fixture
def redis():
    return fakeredis.FakeRedis()


@pytest.fixture
def state(redis):
    return State(lambda: (redis, "app:", lambda: None))


def order(value, counter=1, *, scope=EVERYBODY, name="set:batch_share", id="a", on=True):
    return Order(scope, name, on, value, counter, id, "ann@host", 1.5, keep=True)


def read(state):
    return kept_orders(state.call(merge_call()))


def test_what_is_kept_is_read_as_it_was_written(state, redis):
    both = [order(0.3), order(None, name="pause:batch:übersicht")]
    state.call(merge_call(both))
    assert sorted(read(state), key=lambda o: o.name) == sorted(both, key=lambda o: o.name)
    assert redis.keys() == [f"app:{KEY}".encode()]
    assert redis.ttl(f"app:{KEY}") == -1, "it is there until it is overruled"


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (order(0.3, 1), order(0.4, 2), 0.4),
        (order(0.4, 2), order(0.3, 1), 0.4),
        (order(0.3, 10), order(0.4, 9), 0.3),
        (order(0.3, 2, id="a"), order(0.4, 2, id="b"), 0.4),
        (order(0.4, 2, id="b"), order(0.3, 2, id="a"), 0.4),
    ],
)
def test_the_newest_stays_in_whatever_order_they_are_written(state, first, second, left):
    state.call(merge_call([first]))
    state.call(merge_call([second]))
    assert [each.value for each in read(state)] == [left]


def test_what_an_order_for_all_has_overruled_is_removed(state):
    for_one, for_all = order(0.3, 1, scope="w1@host"), order(0.4, 2)
    state.call(merge_call([for_one, for_all]))
    assert overruled(read(state)) == [for_one]
    state.call(merge_call(dropped=overruled(read(state))))
    assert read(state) == [for_all]


def test_what_is_newer_by_now_is_not_removed(state):
    state.call(merge_call([order(0.5, 7, scope="w1@host")]))
    state.call(merge_call(dropped=[order(0.3, 1, scope="w1@host")]))
    assert [each.value for each in read(state)] == [0.5]


@pytest.mark.parametrize("answer", [None, [], [b"{"], [b"[1,2]"], [b"null"], [b"\xff"]])
def test_what_cant_be_read_is_left_out(answer):
    assert kept_orders(answer) == []
