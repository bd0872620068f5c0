"""How long a request waits for a connection, learnt from what httpcore traces of it.

httpcore's pool gives out connections without a word, and then traces each step that a request
takes on one (its ``trace`` extension, which is documented): connecting, TLS, HTTP/2's first words,
the request's headers. Whatever passes up to the headers and is none of these was spent waiting: for
a connection of the pool, or for a stream of one. Read in httpcore 1.0.9 and httpcore2 2.16.2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isawaitable
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded

from celery_fair import KINDS, Kind

logger = logging.getLogger(__name__)

OnWait = Callable[[Kind, float], None]

#: Seconds: from "there was one" to the patience of a client that has a lot of it.
BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class ConnectionWaits:
    """The waits of one kind; ``given_up`` of them ended without a connection."""

    count: int = 0
    given_up: int = 0
    total_seconds: float = 0.0
    longest_seconds: float = 0.0

    def and_one(self, seconds: float, given_up: bool) -> ConnectionWaits:
        """Return these and one more."""
        return ConnectionWaits(
            self.count + 1,
            self.given_up + given_up,
            self.total_seconds + seconds,
            max(self.longest_seconds, seconds),
        )


class PoolWaits:
    """The waits by kind, from any thread, and whom else to tell."""

    def __init__(self, on_wait: OnWait | None = None) -> None:
        self._on_wait = on_wait
        self._lock = Lock()
        self._waits = dict.fromkeys(KINDS, ConnectionWaits())

    def report(self) -> dict[Kind, ConnectionWaits]:
        """Return what is known now."""
        with self._lock:
            return dict(self._waits)

    def add(self, kind: Kind, seconds: float, given_up: bool) -> None:
        """One wait; what the callback raises is logged and does no harm to the request."""
        with self._lock:
            self._waits[kind] = self._waits[kind].and_one(seconds, given_up)
        if self._on_wait is None:
            return
        try:
            self._on_wait(kind, seconds)
        except Exception:
            logger.exception("on_wait of a FairTransport failed, and is called again next time")


class Wait:
    """The wait of one request, as a context manager around it; told once, at its headers."""

    def __init__(self, kind: Kind, waits: PoolWaits) -> None:
        self._kind = kind
        self._waits = waits
        self._seconds = 0.0
        #: Since when nothing is done for the request; None while a step is taken.
        self._since: float | None = perf_counter()
        self._steps = 0
        self._told = False

    def __enter__(self) -> Wait:
        return self

    def note(self, event: str, info: Any = None) -> None:
        """Take one event, ``<part>.<step>.started``, ``.complete`` or ``.failed``."""
        if self._told:
            return
        self._steps += 1
        if not event.endswith(".started"):
            self._since = perf_counter()
            return
        self._end()
        if event.endswith(".send_request_headers.started"):
            self._tell()

    async def note_async(self, event: str, info: Any = None) -> None:
        """`note`; httpcore awaits an async client's."""
        self.note(event, info)

    def __exit__(
        self,
        of: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Count a wait that came to nothing; one without any step wasn't httpcore's to trace."""
        if self._told or error is None:
            return
        given_up = self._since is not None and _gave_up(error)
        if given_up:
            self._end()
        if given_up or self._steps:
            self._tell(given_up)

    def _end(self) -> None:
        if self._since is not None:
            self._seconds += perf_counter() - self._since
        self._since = None

    def _tell(self, given_up: bool = False) -> None:
        self._told = True
        self._waits.add(self._kind, self._seconds, given_up)


def _gave_up(error: BaseException) -> bool:
    """Whether it ended the wait itself: the pool's timeout, a cancellation, a task's time limit.

    By name, as the timeouts of httpx and httpx2 have no common class.
    """
    return (
        type(error).__name__ == "PoolTimeout"
        or isinstance(error, SoftTimeLimitExceeded)
        or not isinstance(error, Exception)
    )


@contextmanager
def traced(request: Any, note: Callable[[str, Any], Any]) -> Iterator[None]:
    """Have ``note`` called for the steps of a request, and then whom the request names itself.

    The request gets back what it had: a client sends the same one again to authenticate.
    """
    before = request.extensions
    request.extensions = {**before, "trace": _both(note, before.get("trace"))}
    try:
        yield
    finally:
        request.extensions = before


def _both(ours: Callable[[str, Any], Any], theirs: Callable[[str, Any], Any] | None) -> Any:
    if theirs is None:
        return ours

    def both(event: str, info: Any) -> Any:
        noted = ours(event, info)
        return _in_turn(noted, theirs, event, info) if isawaitable(noted) else theirs(event, info)

    async def _in_turn(noted: Any, then: Callable[..., Any], event: str, info: Any) -> None:
        await noted
        await then(event, info)

    return both


def wait_histogram(registry: Any = None) -> OnWait:
    """Return an ``on_wait`` that fills ``celery_fair_connection_wait_seconds{kind}``.

    In ``registry``, by default prometheus_client's own. Call it once a registry; several transports
    may share it. Raises ImportError with the cure where prometheus_client isn't installed.
    """
    try:
        from prometheus_client import REGISTRY, Histogram
    except ImportError as error:
        raise ImportError(
            "wait_histogram() needs prometheus_client: pip install 'celery-fair[prometheus]'"
        ) from error
    histogram = Histogram(
        "celery_fair_connection_wait_seconds",
        "Time that HTTP requests waited for a connection of their kind's pool",
        ["kind"],
        buckets=BUCKETS,
        registry=registry if registry is not None else REGISTRY,
    )

    def observe(kind: Kind, seconds: float) -> None:
        histogram.labels(kind).observe(seconds)

    return observe
