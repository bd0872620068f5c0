"""Sees in an httpx client's answers that a resource refuses, and has all workers use less of it.

It works with httpx and with httpx2, and imports neither. `docs/resources.md` has the reasons.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final

from celery import current_app

from celery_fair import BadOption, Fair
from celery_fair.integrations.wrapping import AsyncWrapper, Wrapper

__all__ = ("AsyncRateLimitTransport", "RateLimitTransport", "retry_after_of")

logger = logging.getLogger(__name__)

#: Too many requests; not available; and overloaded, in the words of some model providers.
REFUSALS: Final = frozenset({429, 503, 529})


class _Watching:
    """What both transports have."""

    def __init__(
        self,
        transport: Any,
        resource: str,
        *,
        fair: Fair | None = None,
        statuses: Collection[int] = REFUSALS,
    ) -> None:
        if not isinstance(resource, str) or not resource:
            raise BadOption("resource=", "the name of a resource", resource)
        self._transport = transport
        self._inner: Collection[Any] = (transport,)
        self._resource = resource
        self._fair = fair
        self._statuses = frozenset(statuses)

    def _installed(self) -> Fair | None:
        """Return the Fair of this thread's app, which is another one's in the next thread."""
        return self._fair or Fair.of(current_app._get_current_object())

    def _tell(self, fair: Fair, headers: Any) -> None:
        """Slow the resource down; whatever goes wrong does no harm to the request."""
        try:
            fair.slow_down(self._resource, retry_after=retry_after_of(headers))
        except Exception:
            logger.exception("celery-fair: %s could not be slowed down", self._resource)


class RateLimitTransport(_Watching, Wrapper):
    """``httpx.Client(transport=RateLimitTransport(httpx.HTTPTransport(), "openai"))``.

    An answer of one of ``statuses`` slows ``resource`` down, for as long as its ``Retry-After``
    says, and goes to the client as it is. The inner transport may be a `FairTransport`.
    """

    def handle_request(self, request: Any) -> Any:
        """Send a request; raises what the transport raises."""
        response = self._transport.handle_request(request)
        if response.status_code in self._statuses and (fair := self._installed()) is not None:
            self._tell(fair, response.headers)
        return response


class AsyncRateLimitTransport(_Watching, AsyncWrapper):
    """`RateLimitTransport` for ``httpx.AsyncClient``; no event loop waits for Redis."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request; raises what the transport raises."""
        response = await self._transport.handle_async_request(request)
        if response.status_code in self._statuses and (fair := self._installed()) is not None:
            said = fair, response.headers
            with suppress(RuntimeError):  # no thread can be started, as at the interpreter's end
                threading.Thread(target=self._tell, args=said, daemon=True).start()
        return response


def retry_after_of(headers: Any) -> float | None:
    """Return for how many seconds an answer says to stay away; None if it says nothing readable.

    ``retry-after-ms`` before ``retry-after``, which is in seconds or an HTTP date (RFC 9110,
    section 10.2.3); a date is compared with the answer's own, or else with this machine's clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000.0
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or said is None:
        return seconds
    until = _date(said)
    if until is None:
        return None
    now = _date(headers.get("date")) or datetime.now(timezone.utc)
    return max((until - now).total_seconds(), 0.0)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0.0 <= value < float("inf") else None  # NaN is neither


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
