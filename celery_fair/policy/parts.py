"""A worker's part of what all workers share, while it can't ask how much is left."""

from __future__ import annotations

import math
from hashlib import blake2b


def part_of(most: int, first: int, last: int, total: int, name: str) -> int:
    """Return how many of ``most`` places fall to the slots ``[first, last)`` of ``total``.

    The parts of all workers add up to ``most``, whatever their sizes. Where it has fewer places
    than workers some get none; which ones follows from ``name``, so that one worker isn't without a
    part of everything.
    """
    if total <= 0:
        return 0
    turned = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % total
    return (most * last + turned) // total - (most * first + turned) // total


def places_without_asking(held: int, part: int) -> int:
    """Return how many places a worker may use: those it has, or its part, whichever is more.

    Added up over all workers that is at most the limit and what ran when the store went away: those
    within their part use no more than that, and those above it only go on with what they have.
    """
    return max(held, part)


def batch_places(places: int, share: float) -> int:
    """Return how many of them batch may have: its guaranteed share, and one at least."""
    return min(max(math.ceil(places * share - 1e-9), 1), places)
