"""Which shards a tenant may use: the same everywhere, dealt evenly, and rarely moved."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_fair.policy.hands import default_size, hand_of, hidden_chance, shortest

TENANTS = st.text(min_size=1, max_size=40)
SHARDS = st.integers(2, 64)


def test_a_hand_is_the_same_in_each_process_and_version() -> None:
    """Publishers of two versions would send one tenant's tasks to two hands otherwise."""
    assert hand_of("acme", 16, 4) == (1, 11, 6, 2)
    code = "from celery_fair.policy.hands import hand_of; print(hand_of('acme', 16, 4))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == str(hand_of("acme", 16, 4))


@given(TENANTS, SHARDS, st.integers(1, 8))
def test_a_hand_has_so_many_different_shards(tenant: str, shards: int, size: int) -> None:
    hand = hand_of(tenant, shards, size)
    assert len(set(hand)) == len(hand) == min(size, shards)
    assert all(0 <= shard < shards for shard in hand)


@given(TENANTS, SHARDS, st.integers(1, 8))
def test_one_shard_more_moves_one_of_a_hand_at_the_most(
    tenant: str, shards: int, size: int
) -> None:
    before, after = set(hand_of(tenant, shards, size)), set(hand_of(tenant, shards + 1, size))
    assert after - before <= {shards}


def test_tenants_are_dealt_evenly() -> None:
    dealt = Counter(shard for number in range(4000) for shard in hand_of(f"tenant-{number}", 16, 4))
    assert all(900 < dealt[shard] < 1100 for shard in range(16))  # 1000, and four times its root


@pytest.mark.parametrize(
    ("shards", "size"), [(1, 1), (4, 1), (8, 2), (12, 3), (16, 4), (32, 4), (64, 4)]
)
def test_a_hand_is_a_quarter_of_the_shards_up_to_four(shards: int, size: int) -> None:
    assert default_size(shards) == size


def test_the_chance_to_be_hidden_is_that_of_counting_all_hands() -> None:
    hands = [{a, b} for a, b in product(range(5), repeat=2) if a < b]
    hidden = [one <= two | three for one, two, three in product(hands, repeat=3)]
    assert hidden_chance(5, 2, floods=2) == pytest.approx(sum(hidden) / len(hidden))
    assert hidden_chance(16, 4) == pytest.approx(1 / 1820)


def test_the_first_of_the_shortest_is_used() -> None:
    assert shortest([3, 1, 1, 2]) == 1
