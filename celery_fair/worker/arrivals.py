"""What a message says of its age, believed as far as it can be true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from celery_fair.headers import NAME, FairHeader, decoded, text_of
from celery_fair.policy.kinds import KINDS

HEAD_START_SECONDS = 60.0
"""How much older than its arrival a message may count for its place in line.

Retries and messages given back keep their turn by it; a publisher whose clock is an hour behind
would stand before all others for an hour.
"""

_new = tuple.__new__  # a named tuple's own is a call of Python more

OLDEST_SECONDS = 30 * 86_400.0
"""An age beyond this is a wrong clock, and no wait."""

COMMON = 1024
"""Characters of a header that are looked at in haste: identifiers are a quarter of it."""

SHORT = 64
"""Characters in which a header names no more than a tenant; with a request's id each is new."""

MOST_REMEMBERED = 4096

OF_THIS_CALL = frozenset({"ready_at", "timeout_seconds", "once", "yields"})
"""What a header may say that matters here, beside whose the task is."""


class Stamps(NamedTuple):
    """What matters of a message until it starts; times are epoch seconds."""

    first_published: float
    """For its place in line."""
    ready_at: float
    said: FairHeader | None = None
    """Its header, if that says how long it may wait, that it has copies, or has yielded."""
    tenant: str | None = None


class Arrivals:
    """Reads the header of each message that a lane has received, and counts those it can't use."""

    def __init__(self) -> None:
        self.missing = 0
        self.unreadable = 0
        self.clamped = 0
        """Messages whose age was not believed."""
        self._whose: dict[str, str | None] = {}
        """Tenants, by all that headers say of nothing else."""

    def stamps(self, headers: Mapping[str, Any] | None, now: float) -> Stamps:
        """Return when a message was first published, and ready, and whose it is.

        Where the header doesn't say when, or what can't be, it is the arrival: ``now``.
        """
        try:  # as nearly all of them are; FairHeader looks at everything, in twice as long
            line = headers[NAME]  # type: ignore[index]
            if len(line) < COMMON:
                kind, _, rest = line.partition(" ")
                published, _, more = rest.partition(" ")
                at = float(published)
                if now - OLDEST_SECONDS <= at <= now and kind in KINDS:
                    earliest = now - HEAD_START_SECONDS
                    place = at if at > earliest else earliest
                    if not more:
                        return _new(Stamps, (place, at, None, None))
                    tenant = self._whose.get(more, self)
                    if tenant is not self:
                        return _new(Stamps, (place, at, None, tenant))
                    found = decoded(more)
                    if OF_THIS_CALL.isdisjoint(found):
                        tenant = text_of(found.get("tenant"))
                        if len(more) < SHORT:
                            self._remember(more, tenant)
                        return _new(Stamps, (place, at, None, tenant))
        except Exception:  # hostile mappings may raise anything
            pass
        return self._checked(headers, now)

    def _remember(self, more: str, tenant: str | None) -> None:
        if len(self._whose) >= MOST_REMEMBERED:
            self._whose.clear()
        self._whose[more] = tenant

    def _checked(self, headers: Mapping[str, Any] | None, now: float) -> Stamps:
        header = FairHeader.read(headers)
        if header is None:
            self._count(headers)
            return Stamps(now, now)
        says_more = header.timeout_seconds is not None or header.once is not None or header.yields
        place = min(max(header.first_published, now - HEAD_START_SECONDS), now)
        ready_at = header.ready_at
        if ready_at < now - OLDEST_SECONDS:
            self.clamped += 1
            ready_at = now
        return Stamps(place, ready_at, header if says_more else None, header.tenant)

    def _count(self, headers: Mapping[str, Any] | None) -> None:
        try:
            there = headers is not None and NAME in headers
        except Exception:  # as hostile as a mapping can be
            there = True
        if there:
            self.unreadable += 1
        else:
            self.missing += 1
