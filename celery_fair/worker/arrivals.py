"""What a message says of its age, believed as far as it can be true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery_fair.headers import NAME, FairHeader
from celery_fair.policy.kinds import KINDS

HEAD_START_SECONDS = 60.0
"""How much older than its arrival a message may count for its place in line.

Retries and messages given back keep their turn by it; a publisher whose clock is an hour behind
would stand before all others for an hour.
"""

OLDEST_SECONDS = 30 * 86_400.0
"""An age beyond this is a wrong clock, and no wait."""

SHORT = 48
"""Characters within which a header says no more than a kind and a time."""


class Arrivals:
    """Reads the header of each message that a lane has received, and counts those it can't use."""

    def __init__(self) -> None:
        self.missing = 0
        self.unreadable = 0
        self.clamped = 0
        """Messages whose age was not believed."""

    def stamps(
        self, headers: Mapping[str, Any] | None, now: float
    ) -> tuple[float, float, FairHeader | None]:
        """Return when a message was first published, for its place in line, and ready.

        Epoch seconds. Where the header says nothing, or what can't be, it is the arrival: ``now``.
        The third is the header, if it says how long the task may wait, whose it is, that it has
        copies, or that it has yielded.
        """
        try:  # as nearly all of them are; FairHeader looks at everything, in three times as long
            line = headers[NAME]  # type: ignore[index]
            if len(line) < SHORT:
                kind, published = line.split(" ")
                at = float(published)
                if now - OLDEST_SECONDS <= at <= now and kind in KINDS:
                    earliest = now - HEAD_START_SECONDS
                    return (at if at > earliest else earliest), at, None
        except Exception:  # hostile mappings may raise anything
            pass
        return self._checked(headers, now)

    def _checked(
        self, headers: Mapping[str, Any] | None, now: float
    ) -> tuple[float, float, FairHeader | None]:
        header = FairHeader.read(headers)
        if header is None:
            self._count(headers)
            return now, now, None
        says_more = header.timeout_seconds is not None or header.once is not None or header.yields
        said = header if says_more or header.tenant is not None else None
        place = min(max(header.first_published, now - HEAD_START_SECONDS), now)
        if header.ready_at < now - OLDEST_SECONDS:
            self.clamped += 1
            return place, now, said
        return place, header.ready_at, said

    def _count(self, headers: Mapping[str, Any] | None) -> None:
        try:
            there = headers is not None and NAME in headers
        except Exception:  # as hostile as a mapping can be
            there = True
        if there:
            self.unreadable += 1
        else:
            self.missing += 1
