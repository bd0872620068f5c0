"""A connection pool for each kind in one httpx client, and how long requests wait for one.

It works with httpx and with httpx2, whose clients take any object with these methods, and imports
neither. `docs/connection-pools.md` has the reasons.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from celery_fair import BATCH, INTERACTIVE, BadOption, Kind, current_kind
from celery_fair.integrations.pool_waits import (
    ConnectionWaits,
    OnWait,
    PoolWaits,
    Wait,
    traced,
    wait_histogram,
)
from celery_fair.integrations.wrapping import AsyncWrapper, Wrapper

__all__ = ("AsyncFairTransport", "ConnectionWaits", "FairTransport", "wait_histogram")


class _Kinds:
    """A transport of one's own for each kind."""

    def __init__(self, *, interactive: Any, batch: Any, on_wait: OnWait | None = None) -> None:
        if interactive is batch:
            raise BadOption("batch=", "another transport than interactive=", batch)
        self._transports: dict[Kind, Any] = {INTERACTIVE: interactive, BATCH: batch}
        self._inner: Collection[Any] = self._transports.values()
        self._waits = PoolWaits(on_wait)

    @property
    def waits(self) -> dict[Kind, ConnectionWaits]:
        """How long requests of each kind have waited for a connection since the start."""
        return self._waits.report()


class FairTransport(_Kinds, Wrapper):
    """``httpx.Client(transport=FairTransport(interactive=…, batch=…))``.

    Each request goes by the transport of the kind that `current_kind` tells, so that batch waits
    for batch's connections only. The two take whatever their class takes (``limits``, ``http2``,
    ``proxy``, ``verify``, …): the client passes nothing on to a transport that it is given.

    ``on_wait(kind, seconds)`` is called for each wait, in the thread of the request. Raises
    `BadOption` for one transport in both places, since it would be shared again.
    """

    def handle_request(self, request: Any) -> Any:
        """Send a request; raises what the transport raises."""
        kind = current_kind()
        with Wait(kind, self._waits) as wait, traced(request, wait.note):
            return self._transports[kind].handle_request(request)


class AsyncFairTransport(_Kinds, AsyncWrapper):
    """`FairTransport` for ``httpx.AsyncClient``, with two ``httpx.AsyncHTTPTransport``."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request; raises what the transport raises."""
        kind = current_kind()
        with Wait(kind, self._waits) as wait, traced(request, wait.note_async):
            return await self._transports[kind].handle_async_request(request)
