"""Which shards a tenant may use, and which of them it uses.

Shuffle sharding (C. MacCarthaigh, "Workload isolation using shuffle-sharding", Amazon Builders'
Library, 2019; Kubernetes' API Priority and Fairness deals hands in the same way): each tenant has a
few shards of many, so that two seldom have all of theirs in common.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Final

MOST_SHARDS: Final = 64
"""On Redis a worker names every shard of a kind in each command, once a priority step."""


def hand_of(tenant: str, shards: int, size: int) -> tuple[int, ...]:
    """Return the ``size`` shards of a tenant, of ``shards``; the first is the one it likes best.

    Rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
    IEEE/ACM Transactions on Networking 6(1), 1998): the shards are ordered by the SHA-256 of
    ``<shard>:<tenant>``. So a hand is the same in each process, and of those that another number of
    shards gives, it differs only by shards that are new or gone.
    """
    name = tenant.encode("utf-8", "surrogatepass")
    order = sorted(
        range(shards), key=lambda shard: hashlib.sha256(b"%d:%b" % (shard, name)).digest()
    )
    return tuple(order[:size])


def default_size(shards: int) -> int:
    """Return how many of ``shards`` a hand has where nobody says: a quarter, from 1 to 4."""
    return min(max(shards // 4, 1), 4)


def hidden_chance(shards: int, size: int, floods: int = 1) -> float:
    """Return the chance that so many others' hands cover all of a tenant's.

    Each shard that is in any of ``floods`` hands is full; a hand is hidden if all of its are.
    """
    hands = math.comb(shards, size)
    chances = {0: 1.0}
    for _ in range(floods):
        grown: dict[int, float] = {}
        for full, chance in chances.items():
            for new in range(max(0, size - full), min(size, shards - full) + 1):
                ways = math.comb(shards - full, new) * math.comb(full, size - new) / hands
                grown[full + new] = grown.get(full + new, 0.0) + chance * ways
        chances = grown
    return sum(chance * math.comb(full, size) / hands for full, chance in chances.items())


def shortest(lengths: Sequence[int]) -> int:
    """Return the place of the shortest; the first of several."""
    return min(range(len(lengths)), key=lengths.__getitem__)
