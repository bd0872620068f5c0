"""How much there is of what tasks share: one value a resource, made from the settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from celery_fair.policy.kinds import KINDS, Kind

if TYPE_CHECKING:
    from celery_fair.settings import FairSettings

#: Begins the names of the resources that a kind's own limit is; no other may begin so.
OF_KIND: Final = "kind:"

#: How much of a budget may be used at once, in seconds of it.
BURST_SECONDS: Final = 6.0


@dataclass(frozen=True, slots=True)
class Resource:
    """What all workers of an app share; what is None has no bound."""

    name: str
    max_running: int | None = None
    """Places: so many tasks that use it run at once."""
    requests_per_minute: float | None = None
    """Each task that uses it is one request, unless it says otherwise (``fair.charge``)."""
    tokens_per_minute: float | None = None
    interactive_reserve: float = 0.0
    """A part of places and budgets that batch leaves free."""
    burst_seconds: float = BURST_SECONDS
    batch_share: float = 0.2
    """A part that batch gets, reserve or not, while it waits for long enough."""

    @property
    def reserved_places(self) -> int:
        """How many places batch leaves free; one at least is for both."""
        if self.max_running is None:
            return 0
        kept = math.ceil(self.max_running * self.interactive_reserve - 1e-9)
        return min(kept, self.max_running - 1)

    @property
    def budgets(self) -> tuple[float | None, float | None]:
        """Requests and tokens a second."""
        requests, tokens = self.requests_per_minute, self.tokens_per_minute
        return (
            None if requests is None else requests / 60.0,
            None if tokens is None else tokens / 60.0,
        )

    @property
    def most(self) -> tuple[float, float]:
        """Requests and tokens that may be used at once: a whole request at least."""
        requests, tokens = self.budgets
        return (
            max((requests or 0.0) * self.burst_seconds, 1.0),
            max((tokens or 0.0) * self.burst_seconds, 1.0),
        )


def of_kind(kind: Kind) -> str:
    """Return the name of the resource that the limit of a kind is."""
    return OF_KIND + kind


def rules_of(settings: FairSettings) -> dict[str, Resource]:
    """Return the resources of an app by name, the limits of its kinds among them."""
    share = settings.batch_share
    rules = {
        name: Resource(name, batch_share=share, **one.model_dump())
        for name, one in settings.resources.items()
    }
    for kind in KINDS:
        most = settings.max_running[kind]
        if most is not None:
            rules[of_kind(kind)] = Resource(of_kind(kind), most, batch_share=share)
    return rules


def lowered(rule: Resource, rate: float) -> int | None:
    """Return how many places there are at a rate in (0, 1]: never none."""
    if rule.max_running is None:
        return None
    return max(math.floor(rule.max_running * rate + 1e-9), 1)


Rules = Mapping[str, Resource]
