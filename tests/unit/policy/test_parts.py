"""What a worker takes for its part, while nobody can say how much is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy.parts import batch_places, part_of, places_without_asking

sizes = st.lists(st.integers(1, 16), min_size=1, max_size=12)


def parts(most: int, slots: list[int], name: str = "openai") -> list[int]:
    found, first, total = [], 0, sum(slots)
    for size in slots:
        found.append(part_of(most, first, first + size, total, name))
        first += size
    return found


@given(st.integers(1, 200), sizes, st.text(max_size=8))
def test_the_parts_of_all_workers_add_up_to_the_limit(most, slots, name):
    assert sum(parts(most, slots, name)) == most


@given(st.integers(1, 200), sizes, st.text(max_size=8))
def test_each_is_within_one_of_its_due(most, slots, name):
    for part, size in zip(parts(most, slots, name), slots, strict=True):
        assert abs(part - most * size / sum(slots)) < 1.0


def test_where_there_are_too_few_they_are_not_always_the_same_workers_without():
    without = {
        index
        for name in ("openai", "gpu", "vllm", "pdf", "mail", "ocr")
        for index, part in enumerate(parts(1, [1, 1, 1], name))
        if part
    }
    assert without == {0, 1, 2}


def test_one_that_can_not_tell_who_else_there_is_has_no_part():
    assert part_of(8, 0, 0, 1, "openai") == part_of(8, 0, 0, 0, "openai") == 0


@given(st.integers(1, 50), sizes, st.data())
def test_the_limit_is_exceeded_by_no_more_than_what_ran(most, slots, data):
    held = [data.draw(st.integers(0, size)) for size in slots]
    every = zip(held, parts(most, slots), strict=True)
    assert sum(places_without_asking(*one) for one in every) <= most + sum(held)


@given(st.integers(0, 100), st.floats(0.01, 0.5))
def test_batch_has_its_share_of_them_and_one_at_least(places, share):
    found = batch_places(places, share)
    assert min(1, places) <= found <= places
    assert found >= min(places * share, places) - 1e-6
