"""The Redis in which an app keeps what must outlive a process; it may be away, and nobody waits.

Which one: ``state_url``, else the broker, else the result backend, whichever is a Redis first. It
is reached as kombu or Celery would reach it, so that Sentinel, TLS, credentials and a key prefix
are theirs. Redis Cluster isn't supported: the scripts touch keys of several slots.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kombu import Connection

from celery_fair import internals
from celery_fair.errors import SettingsError
from celery_fair.errors import StateAway as StateAway  # whoever calls it expects it here
from celery_fair.internals import Connected

if TYPE_CHECKING:
    from celery_fair.app import Fair

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 0.5
"""Bounds each call, connecting included; a web request, or a worker's loop, waits for it."""

RETRY_SECONDS = 5.0
"""How long nobody asks again after a failure: else each publish of an outage would wait anew."""

AT_ONCE = 8
"""Calls of a process that are under way. More wait: redis-py's pools refuse another connection
when all are in use, and a hundred threads that publish would be taken for an outage.
"""

REQUESTS: Final = "deduplicate_seconds"
"""What needs the state in most apps: the setting of requests that are deduplicated."""

WITHOUT_REQUESTS: Final = "nothing is deduplicated, and everything runs"

SILENT_SECONDS = 30.0
"""No second warning within this time: a Redis that half works would fill the log."""

FOLLOW_SECONDS: Final = 2.0
UNASKED_SECONDS: Final = 15.0
"""How soon Sentinel is asked again which Redis is the master, and how soon if none has answered."""

FOLLOW_PATIENCE_SECONDS: Final = 0.25
"""How long a call waits for that answer: redis-py tries one that is silent eleven times."""

NOT_NOW: Final = frozenset({
    "OutOfMemoryError", "ReadOnlyError", "MasterDownError", "NoPermissionError", "ClusterDownError",
    "TryAgainError", "OOM", "READONLY", "MASTERDOWN", "NOPERM", "CLUSTERDOWN", "TRYAGAIN", "BUSY",
    "MISCONF", "NOREPLICAS",
})  # fmt: skip
"""What Redis answers to whatever is asked, until somebody has mended it: redis-py's classes by
name, as its older versions lack some, and the words that are in such an answer.
"""


class Refused(StateAway):
    """Redis refuses a call for what it is, and will again; it has run the others of its batch."""


class Script(NamedTuple):
    """A Lua script that Redis runs as one step."""

    text: str


class Call(NamedTuple):
    """One run of a script; ``keys`` are without the app's prefix, which the state adds."""

    script: Script
    keys: Sequence[str]
    args: Sequence[str | int]


class State:
    """Runs scripts, and says `StateAway` where it can't; safe from any thread, and after a fork.

    After a failure there is silence for `RETRY_SECONDS`; then one caller tries, and the others go
    on without. An outage is logged once, and its end too.
    """

    def __init__(
        self,
        connect: Callable[[], Connected],
        *,
        without: str = WITHOUT_REQUESTS,
        patience_seconds: float | None = None,
    ) -> None:
        self._connect = connect
        self._without = without
        self._patience_seconds = patience_seconds
        self.failures = 0
        """Calls that failed; those left out since are not among them."""
        self._away_until = 0.0
        self._follow_at = 0.0
        self._warned_at = -SILENT_SECONDS
        self._warned = False
        self._connected: Connected | None = None
        self._reset()

    @classmethod
    def of(
        cls,
        fair: Fair,
        *,
        asks: str = REQUESTS,
        without: str = WITHOUT_REQUESTS,
        patience_seconds: float | None = None,
    ) -> State:
        """The state of an app; raises `SettingsError` where there is no Redis for what ``asks``.

        ``without`` says in the log what an outage means. ``patience_seconds`` bounds a call of
        those for whom `TIMEOUT_SECONDS` is too short.
        """
        connect = connector(fair, asks, patience_seconds)
        return cls(connect, without=without, patience_seconds=patience_seconds)

    @property
    def is_away(self) -> bool:
        """Whether the last call has failed, and nobody has been answered since."""
        return self._away_until > 0.0

    def call(self, call: Call, *, insist: bool = False) -> Any:
        """Run a script; ``insist`` is for one with a pace of its own, whom silence doesn't bind."""
        return self.calls([call], insist=insist)[0]

    def calls(self, calls: Iterable[Call], *, insist: bool = False) -> list[Any]:
        """Run several in one round trip; `Refused` once all are run but what never will be."""
        listed = list(calls)
        answers: list[Any] = self._asked(
            lambda client, prefix: _run_all(client, prefix, listed), insist
        )
        return answers

    def pop(self, key: str, seconds: float) -> bool:
        """Wait for an element of a list and take it; False if none comes in that time.

        The state's patience must be longer. Silence doesn't bind it: whoever waits has a pace.
        """
        if seconds >= 1:
            seconds = int(seconds)  # Redis 5 takes no other
        seconds = max(seconds, 0.01)  # 0 is for ever
        return bool(
            self._asked(lambda client, prefix: client.blpop([prefix + key], seconds), insist=True)
        )

    def follow(self) -> None:
        """Leave a master that Sentinel has replaced, though it goes on serving; looks now and then.

        Of two that serve, each would give out all that there is. For one thread, whose leases run
        out while it waits: so another one asks, and is waited for as long as it takes mostly.
        """
        now, connected = monotonic(), self._connected
        if connected is None or now < self._follow_at or self._pid != os.getpid():
            return
        self._follow_at = math.inf
        if not internals.has_sentinel(connected.client):
            return
        asking = threading.Thread(
            target=self._follow, args=(connected.client,), name="celery-fair-sentinel", daemon=True
        )
        try:
            asking.start()
        except RuntimeError:  # there are too many, or Python ends
            self._follow_at = now + UNASKED_SECONDS
        else:
            asking.join(FOLLOW_PATIENCE_SECONDS)

    def _follow(self, client: Any) -> None:
        asked = internals.follow_sentinel(client)
        self._follow_at = monotonic() + (FOLLOW_SECONDS if asked else UNASKED_SECONDS)

    def _asked(self, ask: Callable[[Any, str], Any], insist: bool) -> Any:
        now = monotonic()
        if now < self._away_until and not insist:
            raise StateAway
        if self._away_until:
            self._away_until = now + RETRY_SECONDS  # the others needn't try at the same time
        try:
            answer = self._run(ask)
        except Refused:  # it answers the others: that is no outage
            self._end_outage()
            raise
        except StateAway:
            raise
        except Exception as error:
            self._failed(error)
            raise (Refused if _is_of_the_call(error) else StateAway) from error
        self._end_outage()
        return answer

    def _run(self, ask: Callable[[Any, str], Any]) -> Any:
        self._own()
        room = self._room
        failures = self.failures
        if not room.acquire(timeout=self._patience_seconds or TIMEOUT_SECONDS):
            raise StateAway
        try:
            with self._lock:
                if self.failures != failures:
                    raise StateAway  # found out by another thread while this one waited
                if self._connected is None:
                    self._connected = self._connect()
                client, prefix, _ = self._connected
            return ask(client, prefix)
        finally:
            room.release()

    def _end_outage(self) -> None:
        if not self._away_until:
            return
        self._away_until = 0.0
        if self._warned:
            self._warned = False
            logger.info("celery-fair: the state's Redis answers again")

    def _failed(self, error: BaseException) -> None:
        self.failures += 1
        now = monotonic()
        if not self._away_until and now - self._warned_at >= SILENT_SECONDS:
            self._warned_at = now
            self._warned = True
            logger.warning(
                "celery-fair: the state's Redis can't be asked (%s: %s): until it answers, %s",
                type(error).__name__,
                error,
                self._without,
            )
        self._away_until = now + RETRY_SECONDS

    def _own(self) -> None:
        """Begin anew after a fork: a lock that a thread of the parent held stays shut here."""
        if self._pid != os.getpid():
            self._reset()

    def _reset(self) -> None:
        """Begin with no connection: one that a fork has copied is its parent's."""
        self._lock = threading.Lock()
        self._room = threading.Semaphore(AT_ONCE)
        self._connected = None
        self._follow_at = 0.0
        self._pid = os.getpid()  # last: until then another thread may find a lock of the parent's

    def close(self) -> None:
        """Let go of the connection; the next call makes another."""
        self._own()
        with self._lock:
            connected, self._connected = self._connected, None
        if connected is not None:
            connected.close()


def _run_all(client: Any, prefix: str, calls: list[Call]) -> list[Any]:
    if len(calls) == 1:
        return [_run(client, prefix, calls[0])]
    with client.pipeline(transaction=False) as pipe:
        for call in calls:
            pipe.eval(*_arguments(prefix, call))
        answers = list(pipe.execute(raise_on_error=False))
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    if errors:
        # One that holds for all counts more; and where nothing was answered that is an outage too.
        error = next((one for one in errors if not _is_of_the_call(one)), errors[0])
        if len(errors) < len(answers) and _is_of_the_call(error):
            raise Refused from error
        raise error
    return answers


def _is_of_the_call(error: Exception) -> bool:
    """Whether an error is of one call alone, and not of a Redis that can't serve now."""
    from redis.exceptions import ResponseError

    if not isinstance(error, ResponseError):
        return False
    said = str(error).replace("-", " ").split()  # Redis 6 quotes it behind words of its own
    return NOT_NOW.isdisjoint([type(error).__name__, *said])


def _run(client: Any, prefix: str, call: Call) -> Any:
    # redis-py's own Script sends EVALSHA, and the text only to a server that has not got it.
    return client.register_script(call.script.text)(
        keys=[prefix + key for key in call.keys], args=[prefix, *call.args]
    )


def _arguments(prefix: str, call: Call) -> list[Any]:
    keys = [prefix + key for key in call.keys]
    return [call.script.text, len(keys), *keys, prefix, *call.args]


def connector(
    fair: Fair, asks: str = REQUESTS, patience_seconds: float | None = None
) -> Callable[[], Connected]:
    """Return what connects to the state of an app; connects to nothing itself.

    Raises `SettingsError` where there is no Redis for what ``asks``, or no client for it.
    """
    app, url = fair.app, fair.settings.state_url
    try:
        import redis  # noqa: F401
    except ImportError as error:
        cure = "pip install 'celery-fair[redis]'"
        raise _without(asks, "the package redis", cure) from error
    patience = patience_seconds or TIMEOUT_SECONDS
    of_broker = app.connection_for_write().transport.driver_type == "redis"
    if url is not None:
        conf = app.conf
        options = (
            conf.broker_transport_options if of_broker else conf.result_backend_transport_options
        )
        return lambda: _by_kombu(Connection(url, transport_options=dict(options or {})), patience)
    if of_broker:
        return lambda: _by_kombu(app.connection_for_write(), patience)
    backend = app.backend
    if internals.is_redis_backend(backend):
        return lambda: internals.redis_by_backend(backend, patience, AT_ONCE)
    raise _without(asks, "a Redis", "set state_url, as in 'redis://host:6379/1'")


def _without(asks: str, what: str, cure: str) -> SettingsError:
    return SettingsError([f"{asks}: expected {what} to keep state in, got none ({cure})"])


def _by_kombu(connection: Connection, patience_seconds: float) -> Connected:
    return internals.redis_by_kombu(connection, patience_seconds, AT_ONCE)


def text_of(value: Any) -> str:
    """A part of an answer as text, whether or not the client decodes."""
    return value.decode() if isinstance(value, bytes) else str(value)
