"""The document of orders: whoever hears of the same orders, in whatever order, ends alike."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.steering import DRAIN, EVERYBODY, Malformed, Order, Orders
from celery_fair.steering.making import draining, make, pausing, unsetting
from celery_fair.steering.orders import MOST

NODES = ("w1@host", "w2@host")


def order(scope=EVERYBODY, name="set:batch_share", on=True, value=0.3, counter=1, id="a", **more):
    return Order(scope, name, on, value, counter, id, **{"by": "ann@host", "at": 0.0, **more})


orders = st.builds(
    order,
    scope=st.sampled_from([EVERYBODY, *NODES]),
    name=st.sampled_from(["set:batch_share", "pause:batch", "drain"]),
    on=st.booleans(),
    value=st.sampled_from([0.1, 0.2, None]),
    counter=st.integers(1, 6),
    id=st.sampled_from("abc"),
    at=st.sampled_from([0.0, 1.0]),
    keep=st.booleans(),
)
documents = st.lists(orders, max_size=12).map(Orders)


@given(documents, documents)
def test_it_does_not_matter_who_tells_whom(one, other):
    assert one.merge(other) == other.merge(one)
    assert one.merge(other).version == other.merge(one).version


@given(documents, documents, documents)
def test_it_does_not_matter_in_what_order_three_are_told(one, two, three):
    assert one.merge(two).merge(three) == one.merge(two.merge(three))


@given(documents, documents)
def test_to_be_told_again_changes_nothing(one, other):
    merged = one.merge(other)
    assert merged.merge(other) is merged
    assert merged.merge(one) is merged


@given(st.lists(orders, max_size=12), st.randoms(use_true_random=False))
def test_workers_that_hear_each_order_by_itself_end_with_the_same(heard, random):
    shuffled = [*heard, *heard[:3]]
    random.shuffle(shuffled)
    one = reduce(lambda document, each: document.merge([each]), heard, Orders())
    other = reduce(lambda document, each: document.merge([each]), shuffled, Orders())
    assert one == other
    assert [one.of(node) for node in NODES] == [other.of(node) for node in NODES]


@given(documents, orders)
def test_versions_differ_where_orders_do(document, new):
    merged = document.merge([new])
    stamps = {each.key: each.stamp for each in document}
    same = {each.key: each.stamp for each in merged} == stamps
    assert (merged.version.digest == document.version.digest) == same


@given(documents, st.sampled_from(NODES))
def test_the_next_order_beats_all_known_ones(document, node):
    (new,) = make(document, [unsetting("batch_share")], node, id="a", by="bob@host", at=9.0)
    merged = document.merge([new])
    assert merged.of(node)[new.name] == new
    assert merged.counter == document.counter + 1


def test_an_order_for_all_beats_and_removes_earlier_ones_for_one():
    one = order(scope="w1@host", counter=1)
    every = order(counter=2, value=0.4)
    assert list(Orders([one, every])) == [every]
    assert list(Orders([every]).merge([one])) == [every]


def test_a_later_order_for_one_stands_beside_that_for_all():
    document = Orders([order(counter=1), order(scope="w1@host", counter=2, value=0.4)])
    assert document.of("w1@host")["set:batch_share"].value == 0.4
    assert document.of("w2@host")["set:batch_share"].value == 0.3


def test_of_two_operators_at_once_one_wins_everywhere():
    ann, bob = order(id="a", value=0.3), order(id="b", value=0.4)
    assert Orders([ann]).merge([bob]) == Orders([bob]).merge([ann]) == Orders([bob])


def test_what_ends_a_kept_order_is_kept_or_the_next_restart_would_bring_it_back():
    (pause,) = make(
        Orders(), [pausing("batch", None, on=True)], EVERYBODY, id="a", by="?", at=1, keep=True
    )
    document = Orders([pause])
    (resume,) = make(document, [pausing("batch", None, on=False)], EVERYBODY, id="b", by="?", at=5)
    assert resume.keep
    assert document.merge([resume]).kept() == [resume]


def test_what_is_told_the_same_by_hand_in_several_workers_is_one_order():
    made = [
        make(Orders(), [pausing("batch", None, on=True)], EVERYBODY, id="", by="?", at=7.0)[0]
        for _ in NODES
    ]
    assert made[0] == made[1]
    assert made[0].id


def test_beyond_the_limit_drains_of_workers_go_first_and_what_is_in_force_for_all_stays():
    stays = [
        order(name=f"pause:batch:q{number}", value=None, counter=number + 1) for number in range(20)
    ]
    gone = [
        order(scope=f"pod-{number}", name=DRAIN, value=1.0, counter=100 + number)
        for number in range(MOST)
    ]
    document = Orders(stays).merge(gone)
    assert len(document) == MOST
    assert set(stays) <= set(document)
    assert {each.scope for each in document.missing(document)} == set()
    left = [each.scope for each in document if each.name == DRAIN]
    assert "pod-0" not in left, "the oldest"
    assert f"pod-{MOST - 1}" in left
    assert document.counter == 100 + MOST - 1, "the next order is newer than what was dropped"


def test_an_order_travels_as_json():
    before = order(keep=True, at=12.5)
    assert Order.of(json.loads(json.dumps(before.as_list()))) == before


@pytest.mark.parametrize(
    "change",
    [
        {"counter": 0}, {"counter": True}, {"counter": 10**12}, {"counter": "1"}, {"on": 1},
        {"keep": None}, {"at": float("nan")}, {"at": "now"}, {"scope": ""}, {"scope": 5},
        {"name": "x" * 301}, {"by": ""}, {"by": "a\x1b[31m"}, {"id": "i" * 65},
        {"value": "v" * 1001}, {"value": float("inf")}, {"value": {1, 2}},
        {"value": 10**400}, {"at": 10**400},
    ],
    ids=lambda change: str(change)[:40],
)  # fmt: skip
def test_what_is_no_order_is_refused(change):
    sent = [
        {"scope": 0, "name": 1, "on": 2, "value": 3, "counter": 4, "id": 5, "by": 6, "at": 7,
         "keep": 8}[name]
        for name in change
    ]  # fmt: skip
    fields = order().as_list()
    fields[sent[0]] = next(iter(change.values()))
    with pytest.raises(Malformed):
        Order.of(fields)


@pytest.mark.parametrize("sent", [None, 5, "order", [], {}, order().as_list()[:-1]], ids=str)
def test_so_is_what_has_another_shape(sent):
    with pytest.raises(Malformed):
        Order.of(sent)


def test_a_pause_that_is_ordered_again_goes_on_from_its_beginning():
    wish = [pausing("batch", None, on=True)]
    document = Orders(make(Orders(), wish, EVERYBODY, id="a", by="ann", at=5.0))
    document = document.merge(make(document, wish, EVERYBODY, id="b", by="bob", at=9.0))
    end = make(document, [pausing("batch", None, on=False)], EVERYBODY, id="c", by="bob", at=20.0)
    assert (end[0].value, end[0].at) == (5.0, 20.0)


def test_a_drain_is_for_one_process():
    assert draining(123.5, on=True).value == 123.5
    assert draining(123.5, on=False).value is None
