"""The order in which those who wait to be cleared are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter

from celery_fair.policy.tenant_rules import Tenant
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.lanes import Lane

_held_of = attrgetter("held")


def in_turn(lane: Lane) -> Iterator[Waiting]:
    """As they would be held: of each tenant the oldest first, and tenants by turns."""
    oldest_first = sorted(lane.uncleared.values(), key=_held_of)
    if not lane.takes_turns:
        return iter(oldest_first)
    before: Counter[Tenant] = Counter()
    places = []
    for number, waiting in enumerate(oldest_first):
        tenant = waiting.held.tenant
        places.append((lane.turns.place_of(tenant, before[tenant]), number, waiting))
        before[tenant] += 1
    return (waiting for _, _, waiting in sorted(places))
