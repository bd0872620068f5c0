"""Looks through the lists of a Redis, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final

from celery_fair.cli.seen import Look, Seen
from celery_fair.cli.words import plural
from celery_fair.front import front_of, with_front, without_fronts
from celery_fair.headers import FairHeader
from celery_fair.moments import epoch_of
from celery_fair.observe.place import Place

MESSAGES: Final = 10_000
"""So many are looked at, those first that come first; a page of them is at most about 1 MB."""

BYTES: Final = 64_000_000
PAGE_BYTES: Final = 1_000_000
FIRST_PAGE, LARGEST_PAGE = 10, 1000
"""The first is short: how large messages are, it has yet to tell."""
TEXT_LENGTH: Final = 255


class _Spent(Exception):  # noqa: N818 - named for what has happened
    """The look has seen as many, or taken as long, as it may."""


class RedisLook:
    """Reads lists from the end that is popped, then what was given out, page by page.

    What is popped meanwhile moves the rest, so that one may be missed: who finds nothing looks
    again.
    """

    def __init__(self, app: Any, channel: Any, id: str, found: Look, seconds: float) -> None:
        # Only here: publishers' commands need no worker.
        from celery_fair.worker import internals

        self._keys_of: Callable[[str], list[str]] = partial(internals.redis_keys, channel)
        self._unacked = internals.unacked_keys(channel)
        self._visibility_seconds = float(channel.visibility_timeout)
        self._client: Any = internals.redis_client(channel)
        self._app = app
        self._id = id
        self._needle = json.dumps(id)[1:-1].encode()
        self._found = found
        self._until = monotonic() + seconds
        self._messages = self._bytes = 0

    def run(self, queues: Sequence[str]) -> None:
        found = self._found
        found.is_readable = True
        names = without_fronts(queues)
        try:
            for queue in names:
                if self._look_in(queue):
                    return
            self._look_at_unacknowledged()
            found.is_complete = True
        except _Spent:
            found.looked.append(f"only the first {self._messages} messages: there are more")
        finally:
            messages, in_queues = plural(self._messages, "message"), plural(len(names), "queue")
            found.looked.insert(0, f"{messages} in {in_queues}, and what was given out")

    def firsts(self, queues: Sequence[str]) -> Iterator[float]:
        """When the first message of each list was ready."""
        for queue in queues:
            for key in (key for name in with_front(queue) for key in self._keys_of(name)):
                raw = self._client.lindex(key, -1)
                try:
                    header = FairHeader.read(json.loads(raw)["headers"]) if raw else None
                except (ValueError, TypeError, LookupError, RecursionError):
                    continue
                if header is not None:
                    yield header.ready_at

    def _look_in(self, queue: str) -> bool:
        before = 0
        lengths = {
            name: sum(self._client.llen(key) for key in self._keys_of(name))
            for name in with_front(queue)
        }
        in_front = lengths.get(front_of(queue), 0)
        self._found.lengths[queue] = sum(lengths.values())
        for name in lengths:
            for key in self._keys_of(name) if lengths[name] else ():
                for raw in self._pages(key):
                    message = self._message(raw)
                    if message is not None:
                        seen = self._seen(message, Place.BROKER, name)
                        others = in_front if name == queue else 0
                        self._found.seen = replace(seen, before=before, in_front=others)
                        return True
                    before += 1
        return False

    def _pages(self, key: str) -> Iterator[bytes]:
        size, offset = FIRST_PAGE, 0
        while True:
            page = self._client.lrange(key, -(offset + size), -(offset + 1))
            self._count(page)
            yield from reversed(page)
            self._stop_where_spent()
            if len(page) < size:
                return
            offset += size
            mean = max(sum(map(len, page)) // size, 1)
            size = min(max(PAGE_BYTES // mean, 1), LARGEST_PAGE)

    def _count(self, page: Sequence[bytes]) -> None:
        self._messages += len(page)
        self._bytes += sum(map(len, page))

    def _stop_where_spent(self) -> None:
        spent = self._messages >= MESSAGES or self._bytes >= BYTES
        if spent or monotonic() > self._until:
            raise _Spent

    def _look_at_unacknowledged(self) -> None:
        cursor: Any = 0
        while True:
            cursor, page = self._client.hscan(self._unacked.messages, cursor, count=FIRST_PAGE)
            self._count(list(page.values()))
            for tag, raw in page.items():
                message = self._message(raw)
                if message is not None:
                    self._found.seen = self._given_out(message, tag)
                    return
            self._stop_where_spent()
            if not cursor:
                return

    def _given_out(self, message: dict[str, Any], tag: bytes) -> Seen:
        since = self._client.zscore(self._unacked.since, tag)
        back = None if since is None else since + self._visibility_seconds
        info = (message.get("properties") or {}).get("delivery_info") or {}
        queue = str(info.get("routing_key"))[:TEXT_LENGTH]
        seen = self._seen(message, Place.UNACKNOWLEDGED, queue)
        return replace(seen, delivered_at=since, back_at=back)

    def _message(self, raw: bytes) -> dict[str, Any] | None:
        """The message, if it is the one looked for; anybody may have written it."""
        if self._needle not in raw and self._id.isascii():
            return None
        try:
            message = json.loads(raw)
            if isinstance(message, list):  # as it is kept while it is given out
                message = message[0]
            if str(message["headers"]["id"])[:TEXT_LENGTH] == self._id[:TEXT_LENGTH]:
                return dict(message)
        except (ValueError, TypeError, LookupError, RecursionError):
            pass
        return None

    def _seen(self, message: dict[str, Any], place: Place, queue: str) -> Seen:
        headers = message["headers"]
        header = FairHeader.read(headers)
        eta = headers.get("eta")
        return Seen(
            place,
            queue,
            task=str(headers.get("task"))[:TEXT_LENGTH],
            kind=header.kind if header is not None else None,
            ready_at=header.ready_at if header is not None else None,
            eta=epoch_of(eta, self._app) if isinstance(eta, str) else None,
            yields=header.yields if header is not None else 0,
        )
