"""How many items the next chunk of a job has, from what its items took so far."""

from __future__ import annotations

from typing import Final

#: A chunk has no more items than this: what it claims and reports is one step of the store.
MOST_ITEMS: Final = 1_000

#: A chunk may outlast its target so many times before it leaves its rest to the next one.
OVERRUN: Final = 2.0

#: Of a time limit, the part that a chunk uses: the item that runs then needs the rest.
PART_OF_LIMIT: Final = 0.5


def next_items(items: int, item_seconds: float | None, target_seconds: float) -> int:
    """Return how many items take about ``target_seconds``, after a chunk that had ``items``.

    It grows to twice as many at most, since the first items may be the quick ones; it shrinks at
    once, since others wait for the slot. Never below one.
    """
    most = min(max(2 * items, 1), MOST_ITEMS)
    if not item_seconds or item_seconds <= 0:  # too quick to be measured
        return most
    return max(int(min(target_seconds / item_seconds, float(most))), 1)


def item_seconds(known: float | None, count: int, seconds: float) -> float | None:
    """Return what an item takes, from what was known and ``count`` that took ``seconds``.

    Slower ones count at once, quicker ones by half.
    """
    if count <= 0:
        return known
    latest = seconds / count
    return latest if known is None or latest >= known else (known + latest) / 2


def patience_seconds(target_seconds: float | None, limit_seconds: float | None) -> float | None:
    """Return after how many seconds a chunk begins no other item; None for never.

    ``target_seconds`` is None for chunks of a fixed number of items; ``limit_seconds`` is the time
    limit that ends the whole chunk.
    """
    bounds = []
    if target_seconds is not None:
        bounds.append(OVERRUN * target_seconds)
    if limit_seconds is not None:
        bounds.append(PART_OF_LIMIT * limit_seconds)
    return min(bounds, default=None)
