"""In which order the shards of a kind are asked, so that it is the turn of whoever is at the head.

What stands at the head of a queue is seen only by taking it. But a tenant with much to do sends
much in a row, so the one whose message came last from a shard is a good guess at whose is next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, NamedTuple

from celery_fair.policy.tenant_rules import Tenant, TenantRules
from celery_fair.policy.tenants import ALONE, PATIENCE_SECONDS, Turn, Turns

MOST_OPEN: Final = 256
"""Messages whose start is waited for; of some there is none: they are revoked, or go back."""


class Head(NamedTuple):
    """Whose message came last from a shard."""

    tenant: Tenant
    number: int
    """Of all that came, which one it was."""
    at: float


class Known:
    """A tenant that is thought to be at a head."""

    __slots__ = ("latest", "shards")

    def __init__(self, latest: Head) -> None:
        self.latest = latest
        """Where its message came last."""
        self.shards = 1


class Heads:
    """Whose messages the shards of one kind have given last, and whose turn it is at the broker.

    The turns are of their own, beside those of what a worker holds: a tenant waits here while it is
    thought to be at a head, and is charged as its message comes. Who holds one message at a time
    would forget what each has had otherwise. From when its task starts it is charged for more: a
    message may wait here for its time, or be dropped, and that is no use of a slot.
    """

    def __init__(self) -> None:
        self._turns = Turns()
        self._heads: dict[str, Head] = {}
        self._known: dict[Tenant, Known] = {}
        self._number = count()
        self._ticked_at = -math.inf
        self._open: dict[Turn, None] = {}
        """Of messages that came and whose task has not started, the oldest first."""
        self._started: dict[Turn, Turn] = {}
        """By the turn that the task has in what is held."""

    def came(self, shard: str, tenant: Tenant, now: float) -> None:
        """A message of that tenant came from that shard."""
        self._turns.join(tenant)
        self._open[self._turns.start(tenant, math.inf)] = None
        if len(self._open) > MOST_OPEN:  # most likely of a message that went elsewhere
            oldest = next(iter(self._open))
            del self._open[oldest]
            self._turns.end(oldest, oldest.charged_seconds)
        before = self._heads.get(shard)
        self._heads[shard] = head = Head(tenant, next(self._number), now)
        known = self._known.get(tenant)
        if known is None:
            self._known[tenant] = Known(head)
        else:
            known.latest = head
            known.shards += 1
        if before is not None:
            self._leave(before.tenant)

    def started(self, turn: Turn) -> None:
        """A task has started, whose turn it was: of its tenant's messages the first, or another."""
        tenant = turn.account.tenant
        found = next((one for one in self._open if one.account.tenant == tenant), None)
        if found is not None:
            del self._open[found]
            found.started_at = turn.started_at
            self._started[turn] = found

    def ended(self, turn: Turn, seconds: float) -> None:
        """It has run for so long."""
        found = self._started.pop(turn, None)
        if found is not None:
            self._turns.end(found, seconds)

    def tick(
        self,
        rules: TenantRules,
        now: float,
        is_capped: Callable[[Tenant], bool] = lambda tenant: False,
    ) -> None:
        """Charge for what runs on, by the rules of now; a few times a second.

        Who is at its cap isn't in line: whoever comes would begin where that one has stayed.
        """
        for tenant in self._known:
            (self._turns.leave if is_capped(tenant) else self._turns.join)(tenant)
        self._turns.go_by(rules, ALONE)
        self._turns.tick(now)
        self._ticked_at = now

    def forget_empty(self, length_of: Callable[[str], int | None], read_at: float) -> None:
        """Whoever comes next to a shard that was empty then is anybody."""
        empty = [s for s, head in self._heads.items() if head.at < read_at and length_of(s) == 0]
        for shard in empty:
            self._leave(self._heads.pop(shard).tenant)

    def _leave(self, tenant: Tenant) -> None:
        known = self._known[tenant]
        known.shards -= 1
        if not known.shards:
            del self._known[tenant]
            self._turns.leave(tenant)

    def in_order(
        self, shards: Iterable[str], is_capped: Callable[[Tenant], bool] = lambda tenant: False
    ) -> list[str]:
        """The one whose tenant's time is the earliest first; of several who has waited longest.

        A shard that has given nothing lately comes before them: whoever is there has had nothing.
        One whose tenant runs as much as it may comes behind them all, but not for ever.
        """
        time_of, overlooked_at = self._turns.time_of, self._ticked_at - PATIENCE_SECONDS
        places = {}
        for tenant, known in self._known.items():
            _, number, at = known.latest
            places[tenant] = at > overlooked_at and is_capped(tenant), time_of(tenant), number
        get, known_ones, order = self._heads.get, [], []
        for shard in shards:
            head = get(shard)
            if head is None:
                order.append(shard)
            else:
                capped, time, latest = places[head.tenant]
                known_ones.append((capped, time, latest, head.number, shard))
        known_ones.sort()
        order += [shard for _, _, _, _, shard in known_ones]
        return order
