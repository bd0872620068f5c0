"""What the broker tells: how much waits where, and what kind of Redis it is."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from celery_fair.app import Fair
from celery_fair.doctor.queues import driver_type
from celery_fair.doctor.stranded import known_queues
from celery_fair.doctor.tasks import needs_state
from celery_fair.errors import SettingsError
from celery_fair.front import with_front
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.state import connector

T = TypeVar("T")

ANSWER_SECONDS = 2.0

logger = logging.getLogger(__name__)

#: Messages of a queue that are looked at, those that are next.
LOOKED_AT, PAGE, LOOKED_AT_BYTES = 200, 20, 2_000_000

#: What is looked at of Redis' ``INFO``; the rest stays there.
SECTIONS = ("server", "memory", "persistence")


class Counted(NamedTuple):
    """Messages by queue, and the queues of which the broker itself knows a consumer."""

    waiting: Mapping[str, int]
    attended: frozenset[str] = frozenset()


class Broker(NamedTuple):
    """What it has told, and what it hasn't; as `Replies` has them."""

    waiting: Mapping[str, int]
    attended: frozenset[str]
    redis: Mapping[str, Any] | None
    state: Mapping[str, Any] | None
    parents: Mapping[Kind, Mapping[str, int]]
    unchecked: tuple[str, ...]


def ask_broker(fair: Fair, *, parents: bool = False) -> Broker:
    """Count what waits, and look at a Redis; never raises for what the broker says.

    With ``parents`` also at the messages that are next there, for whose children they are.
    """
    unchecked: list[str] = []
    counted = _tried(
        "how much waits", lambda: count(fair.app, known_queues(fair)), Counted({}), unchecked
    )
    redis = _tried("Redis", lambda: redis_info(fair.app), None, unchecked)
    if redis is not None and redis["saves"] is None:
        unchecked.append("whether Redis saves anything (it refuses CONFIG GET save)")
    state = _tried("the state's Redis", lambda: state_info(fair), None, unchecked)
    found: Mapping[Kind, Mapping[str, int]] = {}
    if redis is not None and parents:
        found = _tried("whose children wait", lambda: parents_waiting(fair), found, unchecked)
    return Broker(*counted, redis, state, found, tuple(unchecked))


def _tried(about: str, asks: Callable[[], T], otherwise: T, unchecked: list[str]) -> T:
    try:
        return asks()
    except Exception as error:
        logger.debug("%s could not be asked", about, exc_info=True)
        unchecked.append(f"{about} ({type(error).__name__}: {error})")
        return otherwise


def count(app: Any, queues: Iterable[str]) -> Counted:
    """Count what waits; nothing where the transport can't be counted. Raises what it says.

    RabbitMQ also tells of consumers, those of workers that are too busy to answer among them.
    """
    if driver_type(app) == "amqp":
        return _count_on_amqp(app, queues)
    return Counted(_count_by_link(app, queues))


def _count_on_amqp(app: Any, queues: Iterable[str]) -> Counted:
    """By passive declares; RabbitMQ closes the channel over a queue that isn't there."""
    until = monotonic() + ANSWER_SECONDS
    waiting: dict[str, int] = {}
    attended: set[str] = set()
    with app.connection_for_read() as connection:
        connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        for queue in queues:
            if monotonic() > until:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS:g} s")
            try:
                with connection.channel() as channel:
                    found = channel.queue_declare(queue, passive=True)
            except connection.channel_errors:
                continue
            waiting[queue] = found.message_count
            if found.consumer_count:
                attended.add(queue)
    return Counted(waiting, frozenset(attended))


def _count_by_link(app: Any, queues: Iterable[str]) -> dict[str, int]:
    """By the sensor's own link, which knows priorities and key prefixes."""
    from celery_fair.worker.links import link_type

    with app.connection_for_read() as connection:
        found = link_type(connection)
    if found is None:
        return {}
    link = found(app, listens_only=True)
    try:
        until = monotonic() + ANSWER_SECONDS
        answer = link.ask(list(queues), None)
        while answer is None:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer within {ANSWER_SECONDS:g} s")
            answer = link.receive(left)
        return dict(answer.ready)
    finally:
        link.close()


def redis_info(app: Any) -> dict[str, Any] | None:
    """What Redis says of itself, with ``saves``: whether anything reaches its disk, if it tells.

    ``None`` where the broker is something else. Raises what Redis says, a refusal among it.
    """
    if driver_type(app) != "redis":
        return None
    with _redis(app) as (_, client):
        found: dict[str, Any] = {}
        for section in SECTIONS:
            found.update(client.info(section))
        save = _configured(client, "save")
        found["saves"] = bool(found.get("aof_enabled")) or (None if save is None else bool(save))
        found["timeout"] = int(_configured(client, "timeout") or 0)
        return found


def state_info(fair: Fair) -> dict[str, Any] | None:
    """What the Redis of the state says of itself; ``None`` where the app keeps no state.

    Raises what Redis says.
    """
    if not needs_state(fair):
        return None
    try:
        connected = connector(fair, patience_seconds=ANSWER_SECONDS)()
    except SettingsError:
        return None  # said by another rule
    try:
        return {**connected.client.info("server"), **connected.client.info("memory")}
    finally:
        connected.close()


def parents_waiting(fair: Fair) -> dict[Kind, dict[str, int]]:
    """How many of the next messages in a Redis have which parent. Raises what Redis says.

    Only headers are looked at, never what a task is called with.
    """
    from celery_fair.worker import internals

    found: dict[Kind, Counter[str]] = {kind: Counter() for kind in KINDS}
    with _redis(fair.app) as (channel, client):
        for kind in KINDS:
            queues = [n for queue in fair.queues_and_shards[kind] for n in with_front(queue)]
            for key in (
                k for q in queues for k in internals.redis_keys(channel, q, prefixed=False)
            ):
                found[kind].update(filter(None, map(_parent, _next_messages(client, key))))
    return {kind: dict(counted) for kind, counted in found.items()}


def _next_messages(client: Any, key: str) -> Iterator[bytes]:
    """Those that BRPOP would take, from the end of the list; a page of them at a time."""
    size = 0
    for offset in range(0, LOOKED_AT, PAGE):
        page = client.lrange(key, -(offset + PAGE), -(offset + 1))
        yield from page
        size += sum(map(len, page))
        if len(page) < PAGE or size > LOOKED_AT_BYTES:
            return


def _parent(message: bytes | str) -> str | None:
    try:
        parent = json.loads(message)["headers"]["parent_id"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return parent if isinstance(parent, str) else None


@contextmanager
def _redis(app: Any) -> Iterator[tuple[Any, Any]]:
    """A channel of kombu's and its client, whose every answer is bounded in time."""
    with app.connection_for_read() as connection:
        options = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
        connection.transport_options = {**connection.transport_options, **options}
        connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        with connection.channel() as channel, channel.conn_or_acquire() as client:
            yield channel, client


def _configured(client: Any, name: str) -> str | None:
    """``None`` if it doesn't tell: a managed Redis refuses ``CONFIG``."""
    try:
        return str(client.config_get(name)[name])
    except Exception:
        return None
