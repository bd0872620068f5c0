"""What the broker tells: how much waits where, and what kind of Redis it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from celery_fair.app import Fair
from celery_fair.doctor.stranded import known_queues

T = TypeVar("T")

ANSWER_SECONDS = 2.0

logger = logging.getLogger(__name__)

#: What is looked at of Redis' ``INFO``; the rest stays there.
SECTIONS = ("server", "memory", "persistence")


class Broker(NamedTuple):
    """What it has told, and what it hasn't; as `Replies` has them."""

    waiting: Mapping[str, int]
    redis: Mapping[str, Any] | None
    unchecked: tuple[str, ...]


def ask_broker(fair: Fair) -> Broker:
    """Count what waits, and look at a Redis; never raises for what the broker says."""
    unchecked: list[str] = []
    nothing: Mapping[str, int] = {}
    waiting = _tried(
        "how much waits", lambda: count_waiting(fair.app, known_queues(fair)), nothing, unchecked
    )
    redis = _tried("Redis", lambda: redis_info(fair.app), None, unchecked)
    if redis is not None and redis["saves"] is None:
        unchecked.append("whether Redis saves anything (it refuses CONFIG GET save)")
    return Broker(waiting, redis, tuple(unchecked))


def _tried(about: str, asks: Callable[[], T], otherwise: T, unchecked: list[str]) -> T:
    try:
        return asks()
    except Exception as error:
        logger.debug("%s could not be asked", about, exc_info=True)
        unchecked.append(f"{about} ({type(error).__name__}: {error})")
        return otherwise


def count_waiting(app: Any, queues: Iterable[str]) -> dict[str, int]:
    """Messages by queue; empty where the transport can't be counted. Raises what the broker says.

    By the sensor's own link, which knows priorities, key prefixes and queues that aren't there.
    """
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
    with app.connection_for_read() as connection:
        if connection.transport.driver_type != "redis":
            return None
        options = {"socket_timeout": ANSWER_SECONDS, "socket_connect_timeout": ANSWER_SECONDS}
        connection.transport_options = {**connection.transport_options, **options}
        connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        with connection.channel() as channel, channel.conn_or_acquire() as client:
            found: dict[str, Any] = {}
            for section in SECTIONS:
                found.update(client.info(section))
            found["saves"] = _saves(client, found)
            return found


def _saves(client: Any, info: Mapping[str, Any]) -> bool | None:
    """``None`` if it doesn't tell: a managed Redis refuses ``CONFIG``."""
    if info.get("aof_enabled"):
        return True
    try:
        return bool(client.config_get("save").get("save"))
    except Exception:
        return None
