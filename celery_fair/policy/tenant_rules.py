"""What was set for tenants: their weights, and each worker's part of the tasks one may run."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from celery_fair.policy.fleet import Stretch

Tenant = str | None
"""No tenant is one like any other, but that no rule is for it."""


@dataclass(frozen=True, slots=True)
class TenantRules:
    """``weights`` by name or pattern; of each kind ``most`` may run in the fleet."""

    weights: Mapping[str, float] = field(default_factory=dict)
    most: int | None = None

    def weight(self, tenant: Tenant) -> float:
        """By its name, else by the first pattern that matches."""
        if tenant is None or not self.weights:
            return 1.0
        weight = self.weights.get(tenant)
        if weight is not None:
            return weight
        found = (w for pattern, w in self.weights.items() if fnmatchcase(tenant, pattern))
        return next(found, 1.0)

    def part(self, tenant: Tenant, stretch: Stretch) -> int | None:
        """How many of a tenant's tasks may run here; ``None`` if that has no limit.

        The slots that the kind may have are a ring, and a tenant's lie in a row, from where its
        name says. So the parts of all workers make up ``most``, also of workers with one slot, and
        no worker has all tenants. As a reserve grows or shrinks by a slot, only those who would
        begin in it move, by one. Nobody is left to workers that may be gone.
        """
        segment, begin = stretch.segment, stretch.begin
        slots = segment.total - begin
        if tenant is None or self.most is None or self.most >= slots:
            return None
        place = zlib.crc32(tenant.encode("utf-8", "surrogatepass")) % segment.total
        if place < begin:
            place = begin + place % slots
        part = sum(
            max(0, min(segment.last, first + self.most) - max(segment.first, begin, first))
            for first in (place - slots, place)
        )
        return part if stretch.is_certain else max(part, 1)
