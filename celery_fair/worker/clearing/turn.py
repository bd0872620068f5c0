"""The order in which those who wait to be cleared are asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter

from celery_fair.policy.tenant_rules import Tenant
from celery_fair.worker.clearing.waiting import Waiting
from celery_fair.worker.lanes import Lane

_held_of = attrgetter("held")


def in_turn(lane: Lane) -> Iterator[Waiting]:
    """Of each tenant the oldest first, and tenants by turns in what uses the same.

    The first of each of these, the second of each, and so on; after them tenants at their cap.
    """
    oldest_first = sorted(lane.uncleared.values(), key=_held_of)
    if not lane.takes_turns:
        return iter(oldest_first)
    capped = {one.held.tenant: lane.is_capped(one.held.tenant) for one in oldest_first}
    before: Counter[tuple[Sequence[str], Tenant]] = Counter()
    lines: defaultdict[Sequence[str], list[tuple[bool, float, int, Waiting]]] = defaultdict(list)
    for number, waiting in enumerate(oldest_first):
        uses, tenant = waiting.uses, waiting.held.tenant
        _, time = lane.places.of(uses).place_of(tenant, before[uses, tenant])
        lines[uses].append((capped[tenant], time, number, waiting))
        before[uses, tenant] += 1
    ranked = [
        (is_capped, rank, number, waiting)
        for line in lines.values()
        for rank, (is_capped, _, number, waiting) in enumerate(sorted(line))
    ]
    return (waiting for _, _, _, waiting in sorted(ranked))
