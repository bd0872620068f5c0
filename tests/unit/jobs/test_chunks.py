"""How many items the next chunk has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy.chunks import MOST_ITEMS, item_seconds, next_items, patience_seconds


def test_a_chunk_has_as_many_items_as_take_the_target_time():
    assert next_items(10, 0.1, 1.0) == 10
    assert next_items(10, 0.08, 1.0) == 12
    assert next_items(600, 0.001, 1.0) == 1000


def test_it_grows_to_twice_as_many_at_most():
    assert next_items(1, 0.001, 1.0) == 2
    assert next_items(300, 0.002, 1.0) == 500
    assert next_items(200, 0.002, 1.0) == 400


def test_it_shrinks_at_once():
    assert next_items(500, 0.5, 1.0) == 2


def test_an_item_that_takes_longer_than_the_target_is_a_chunk_of_its_own():
    assert next_items(100, 60.0, 1.0) == 1


def test_items_too_quick_to_be_measured_let_it_grow():
    assert next_items(4, 0.0, 1.0) == 8
    assert next_items(4, None, 1.0) == 8
    assert next_items(MOST_ITEMS, 0.0, 1.0) == MOST_ITEMS


@given(
    st.integers(0, 10 * MOST_ITEMS),
    st.none() | st.floats(0, 1e6),
    st.floats(0.01, 3600),
)
def test_it_is_never_below_one_nor_above_the_most(items, seconds, target):
    assert 1 <= next_items(items, seconds, target) <= min(max(2 * items, 1), MOST_ITEMS)


@given(st.floats(0.0001, 100), st.floats(0.01, 3600))
def test_it_settles_where_a_chunk_takes_no_longer_than_its_target(seconds, target):
    items = 1
    for _ in range(12):
        items = next_items(items, seconds, target)
    assert items == 1 or items * seconds <= target
    assert items == MOST_ITEMS or (items + 1) * seconds >= target * (1 - 1e-9)


def test_slower_items_count_at_once_and_quicker_ones_by_half():
    assert item_seconds(None, 4, 2.0) == 0.5
    assert item_seconds(0.1, 4, 2.0) == 0.5
    assert item_seconds(0.5, 4, 0.4) == 0.3
    assert item_seconds(0.5, 0, 9.0) == 0.5


def test_a_chunk_ends_at_twice_its_target_or_half_its_time_limit():
    assert patience_seconds(1.0, None) == 2.0
    assert patience_seconds(1.0, 3.0) == 1.5
    assert patience_seconds(None, 3.0) == 1.5
    assert patience_seconds(None, None) is None
