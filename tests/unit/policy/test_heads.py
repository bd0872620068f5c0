"""In which order the shards of a kind are asked."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy.heads import MOST_OPEN, Heads
from celery_fair.policy.tenant_rules import TenantRules
from celery_fair.policy.tenants import PATIENCE_SECONDS, Turns


def _ran(heads: Heads, shard: str, tenant: str, seconds: float, at: float) -> None:
    """A message came, and its task has run for so long."""
    heads.came(shard, tenant, at)
    turn = Turns().start(tenant, at)
    heads.started(turn)
    heads.ended(turn, seconds)


def test_the_shard_of_whoever_has_had_most_is_asked_last() -> None:
    heads = Heads()
    _ran(heads, "one", "big", 9.0, 0.0)
    _ran(heads, "two", "small", 1.0, 0.0)
    assert heads.in_order(["one", "two", "three"]) == ["three", "two", "one"]


def test_all_shards_of_one_tenant_come_behind_the_others() -> None:
    heads = Heads()
    _ran(heads, "d", "small", 1.0, 0.0)
    for shard in "abc":
        _ran(heads, shard, "big", 1.0, 0.0)
    assert heads.in_order("abcd") == ["d", "a", "b", "c"]


def test_weight_counts() -> None:
    heads = Heads()
    heads.tick(TenantRules({"big": 10.0}), 0.0)
    _ran(heads, "one", "big", 2.0, 0.0)
    _ran(heads, "two", "small", 1.0, 0.0)
    assert heads.in_order(["two", "one"]) == ["one", "two"]


def test_one_at_its_cap_comes_behind_all_others() -> None:
    heads = Heads()
    _ran(heads, "one", "capped", 1.0, 0.0)
    _ran(heads, "two", "other", 9.0, 0.0)
    assert heads.in_order(["one", "two", "three"], "capped".__eq__) == ["three", "two", "one"]


def test_one_at_its_cap_is_not_passed_by_for_ever() -> None:
    heads = Heads()
    _ran(heads, "one", "capped", 1.0, 0.0)
    for second in range(60):
        _ran(heads, "two", "other", 1.0, float(second))
        heads.tick(TenantRules(), float(second))
        first = "one" if second >= PATIENCE_SECONDS else "two"
        assert heads.in_order(["one", "two"], "capped".__eq__)[0] == first


def test_whoever_comes_back_gains_nothing_by_one_who_stands_at_its_cap() -> None:
    heads = Heads()
    _ran(heads, "one", "capped", 1.0, 0.0)
    _ran(heads, "three", "back", 1.0, 0.0)
    heads.forget_empty({"three": 0}.get, 0.5)
    for second in range(1, 100):
        _ran(heads, "two", "other", 1.0, float(second))
        heads.tick(TenantRules(), float(second), "capped".__eq__)
    for _ in range(5):
        _ran(heads, "three", "back", 1.0, 100.0)
    assert heads.in_order(["two", "three"]) == ["two", "three"]


def test_without_tenants_shards_take_turns() -> None:
    heads, asked = Heads(), []
    for _ in range(6):
        shard = heads.in_order("abc")[0]
        heads.came(shard, None, 0.0)
        asked.append(shard)
    assert asked == list("abcabc")


@pytest.mark.parametrize(("length", "read_at", "first"), [(0, 2.0, "one"), (1, 2.0, "two")])
def test_whoever_comes_to_a_shard_that_was_empty_is_anybody(
    length: int, read_at: float, first: str
) -> None:
    heads = Heads()
    _ran(heads, "one", "big", 9.0, 1.0)
    _ran(heads, "two", "small", 1.0, 1.0)
    heads.forget_empty({"one": length, "two": 5}.get, read_at)
    assert heads.in_order(["one", "two"])[0] == first


def test_what_came_after_the_reading_is_not_forgotten() -> None:
    heads = Heads()
    _ran(heads, "one", "big", 9.0, 3.0)
    _ran(heads, "two", "small", 1.0, 1.0)
    heads.forget_empty({"one": 0, "two": 1}.get, 2.0)
    assert heads.in_order(["one", "two"]) == ["two", "one"]


def test_what_runs_on_counts_while_it_runs() -> None:
    heads = Heads()
    heads.came("one", "long", 0.0)
    heads.started(Turns().start("long", 0.0))
    for _ in range(3):
        _ran(heads, "two", "short", 1.0, 0.0)
    assert heads.in_order(["one", "two"]) == ["one", "two"]
    heads.tick(TenantRules(), 60.0)
    assert heads.in_order(["one", "two"]) == ["two", "one"]


def test_what_came_and_never_starts_is_charged_no_longer() -> None:
    """Revoked, given back, or waiting for its ETA: it takes no slot."""
    heads = Heads()
    for _ in range(20):
        heads.came("one", "unlucky", 0.0)
    _ran(heads, "two", "other", 1.0, 0.0)
    heads.tick(TenantRules(), 3600.0)
    assert heads.in_order(["one", "two"]) == ["one", "two"]


def test_messages_that_never_end_here_are_forgotten() -> None:
    heads = Heads()
    for number in range(3 * MOST_OPEN):
        heads.came("one", f"tenant {number}", 0.0)
    assert len(heads._open) == MOST_OPEN
    unknown = Turns().start("unknown", 0.0)
    heads.started(unknown)
    heads.ended(unknown, 1.0)


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.integers(1, 4),
    st.sampled_from([0.5, 1.0, 4.0]),
)
def test_a_flood_has_its_turns_and_what_the_first_look_gives(
    others: list[int], flooded: int, seconds: float
) -> None:
    """Each tenant in a shard of its own, the flood in several, and its tasks of any length.

    While another waits, the flood takes as many slot-seconds as that one, and three tasks more; and
    what its shards give at first, when nobody knows whose it is.
    """
    shards = {f"flood {n}": deque(["flood"] * 1000) for n in range(flooded)}
    shards |= {f"other {n}": deque([f"other {n}"] * size) for n, size in enumerate(others)}
    heads, had = Heads(), []
    while any(shards[f"other {n}"] for n in range(len(others))):
        shard = next(s for s in heads.in_order(shards) if shards[s])
        tenant = shards[shard].popleft()
        _ran(heads, shard, tenant, seconds if tenant == "flood" else 1.0, float(len(had)))
        heads.forget_empty(lambda s: len(shards[s]), float(len(had) + 1))
        had.append(tenant)
    taken = (had.count("flood") - flooded) * seconds
    assert taken <= max(others) + 3 * max(seconds, 1.0)
