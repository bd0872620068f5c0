"""Which queue of its kind a message is published to: the shortest of its tenant's hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING

from celery_fair.policy.hands import default_size, hand_of, shortest
from celery_fair.policy.kinds import Kind
from celery_fair.sharding.names import shard_of

if TYPE_CHECKING:
    from celery_fair.app import Fair

MOST_TENANTS = 10_000
"""Tenants whose hand is remembered; dealing one again takes a hash a shard."""


@lru_cache(MOST_TENANTS)
def _queues_of(home: str, tenant: str, shards: int, size: int) -> tuple[str, ...]:
    return tuple(shard_of(home, index) for index in hand_of(tenant, shards, size))


class Shards:
    """Chooses shards for one app's publishes; safe from any thread, and after a fork."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._hands: Mapping[Kind, tuple[int, int]] | None = None
        self._turn = count()

    @property
    def hands(self) -> Mapping[Kind, tuple[int, int]]:
        """How many shards each kind has that has any, and how many of them a tenant may use."""
        if self._hands is None:
            settings = self._fair.settings
            self._hands = {
                kind: (shards, min(settings.tenant_hand or default_size(shards), shards))
                for kind, shards in settings.shards.items()
                if shards > 1
            }
        return self._hands

    def queue_for(self, kind: Kind, tenant: str | None) -> str:
        """Return where a task of that kind and tenant goes; without a tenant to the queue itself.

        While nobody can tell the lengths, the shards of the hand take turns.
        """
        home = self._fair.queues[kind][0]
        if tenant is None or kind not in self.hands:
            return home
        queues = _queues_of(home, tenant, *self.hands[kind])
        if len(queues) == 1:
            return queues[0]
        backlog = self._fair.admission.backlog
        lengths = backlog.lengths(queues)
        if lengths is None:
            return queues[next(self._turn) % len(queues)]
        chosen = queues[shortest(lengths)]
        backlog.sent(chosen)
        return chosen
