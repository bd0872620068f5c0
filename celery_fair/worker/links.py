"""The sensor's own connection to the broker: asks, doesn't wait, reads the answer when it comes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kombu import Consumer, Exchange, Producer, Queue

from celery_fair.worker import internals
from celery_fair.worker.fleet import WORDS_A_SECOND

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 0.5
"""Bounds every blocking call of a link, connecting included."""

NOT_FOUND = 404

INBOX_SECONDS, INBOX_WORDS, UNREAD_WORDS = 5.0, 2000, 500
"""What waits for one who only listens: for so long, so many, and so many more in its socket."""

MEMBERS_KEY = "_celery_fair.members"
MEMBERS_EXCHANGE = "celery_fair.members"


class Answer(NamedTuple):
    """What one reading has found: messages ready by queue, and the words of the fleet's members.

    ``members``: words by name, an empty one for a member that has left. ``complete``: whoever is
    not among them is gone too. ``company``: how many others there seem to be, ``None`` where
    members don't hear each other. A link's first answer has no words, only company: a thousand
    workers that are started together must not hear a thousand words each at once.
    """

    ready: Mapping[str, int]
    members: Mapping[str, str]
    complete: bool = False
    company: int | None = None


class Link:
    """Asks by reading at once: for transports that live in this process or on its disk.

    An answer is complete, or it is not there: a queue that could not be read raises.
    """

    answers_at_once = True
    has_members = False
    words_a_second = WORDS_A_SECOND
    """How many words its broker can deliver to members a second, beside its work."""
    speaks_unasked = False
    """Whether the descriptor may be readable with no question open, short of a lost connection."""

    def __init__(self, app: Any, *, listens_only: bool = False) -> None:
        self._listens_only = listens_only
        self.connection = app.connection_for_read()
        options = dict(self.connection.transport_options)
        for name in ("socket_timeout", "socket_connect_timeout", "read_timeout", "write_timeout"):
            options[name] = min(options.get(name) or TIMEOUT_SECONDS, TIMEOUT_SECONDS)
        self._bound(options)
        try:
            self._connect()
        except Exception:
            self.connection.release()
            raise

    def _connect(self) -> None:
        # One try: kombu's own way in would sleep between two, and this may be the event loop.
        self.connection.ensure_connection(max_retries=0, reraise_as_library_errors=False)
        self.channel = self.connection.channel()

    def _bound(self, options: dict[str, Any]) -> None:
        """Set time limits, where the transport knows them."""

    def ask(self, queues: Iterable[str], member: tuple[str, str] | None) -> Answer | None:
        """Ask for the messages ready in ``queues``, and say ``member`` = (name, word) if given."""
        return Answer({queue: internals.queue_size(self.channel, queue) for queue in queues}, {})

    def fileno(self) -> int:
        """The descriptor that becomes readable when there is an answer."""
        raise NotImplementedError

    def receive(self, timeout_seconds: float = 0.0) -> Answer | None:
        """Read what has come; ``None`` while the answer is not complete."""
        raise NotImplementedError

    def words(self) -> Mapping[str, str]:
        """The words that the broker keeps of members; waits for them. Others come with answers."""
        return {}

    def leave(self, name: str) -> None:
        """Take the member of this name out of the fleet."""

    def forget(self, names: Iterable[str]) -> None:
        """Remove what the broker still keeps of members that are silent for long."""

    def close(self) -> None:
        self.connection.release()


class RedisLink(Link):
    """Redis: one pipeline of LLEN over all priority steps, and the fleet in a hash beside it."""

    answers_at_once = False
    has_members = True

    def __init__(self, app: Any, *, listens_only: bool = False) -> None:
        self._asked: list[str] = []
        self._replies = 0
        self._with_members = self._has_spoken = False
        super().__init__(app, listens_only=listens_only)

    def _connect(self) -> None:
        super()._connect()
        self._redis = internals.redis_link_connection(self.channel)
        self._members_key = f"{self.channel.global_keyprefix}{MEMBERS_KEY}"

    def _bound(self, options: dict[str, Any]) -> None:
        self.connection.transport_options = options

    def ask(self, queues: Iterable[str], member: tuple[str, str] | None) -> None:
        self._asked = [queue for queue in queues for _ in internals.redis_keys(self.channel, queue)]
        commands: list[tuple[Any, ...]] = [
            ("LLEN", key)
            for queue in dict.fromkeys(self._asked)
            for key in internals.redis_keys(self.channel, queue)
        ]
        if member is not None:
            commands.append(("HSET", self._members_key, *member))
        commands.append(("HLEN", self._members_key))
        self._with_members = member is not None and self._has_spoken
        if self._with_members:
            commands.append(("HGETALL", self._members_key))
        self._has_spoken = self._has_spoken or member is not None
        self._replies = len(commands)
        internals.redis_send(self._redis, commands)

    def fileno(self) -> int:
        return internals.redis_fileno(self._redis)

    def receive(self, timeout_seconds: float = 0.0) -> Answer:
        replies = internals.redis_receive(self._redis, self._replies)
        ready: dict[str, int] = dict.fromkeys(self._asked, 0)
        for queue, length in zip(self._asked, replies, strict=False):
            if isinstance(length, Exception):
                raise length  # no permission, another type: unknown, which is not empty
            ready[queue] += int(length)
        members = _text_items(replies.pop()) if self._with_members else {}
        company = replies[-1] - 1 if isinstance(replies[-1], int) else None
        return Answer(ready, members, bool(members), company)

    def words(self) -> Mapping[str, str]:
        internals.redis_send(self._redis, [("HGETALL", self._members_key)])
        return _text_items(internals.redis_receive(self._redis, 1)[0])

    def leave(self, name: str) -> None:
        self.forget([name])

    def forget(self, names: Iterable[str]) -> None:
        self.channel.client.hdel(MEMBERS_KEY, *names)

    def close(self) -> None:
        self._redis.disconnect()
        super().close()


class AmqpLink(Link):
    """RabbitMQ: passive declares sent together, and the fleet over a fanout exchange.

    A queue that doesn't exist closes the channel (404), which py-amqp opens again: it counts as
    empty, and those asked behind it are asked anew.
    """

    answers_at_once = False
    has_members = True
    words_a_second = 10_000  # 36 µs each of RabbitMQ's own time: a third of a core
    speaks_unasked = True

    def __init__(self, app: Any, *, listens_only: bool = False) -> None:
        self._pending: deque[str] = deque()
        self._ready: dict[str, int] = {}
        self._words: dict[str, str] = {}
        self._consumers = 0
        self._has_counted = False
        super().__init__(app, listens_only=listens_only)

    def _connect(self) -> None:
        super()._connect()
        internals.on_queue_size(self.channel, self._size_received)
        try:
            self._join()
        except self.connection.channel_errors as error:  # a user that may not declare, say
            self.has_members = False
            logger.warning("celery-fair: no view of the fleet, each worker is by itself: %s", error)

    def _join(self) -> None:
        exchange = Exchange(MEMBERS_EXCHANGE, type="fanout", durable=False, auto_delete=True)
        channel = self.connection.channel()
        inbox = Queue("", exchange, exclusive=True, auto_delete=True, durable=False)
        if self._listens_only:  # it may not read for hours, and nothing may pile up for it
            inbox.message_ttl, inbox.max_length = INBOX_SECONDS, INBOX_WORDS
            channel.basic_qos(0, UNREAD_WORDS, False)
        consumer = Consumer(channel, [inbox], no_ack=not self._listens_only, accept=["json"])
        consumer.register_callback(self._word_received)
        consumer.consume()
        self._producer = Producer(channel, exchange, auto_declare=False)

    def _bound(self, options: dict[str, Any]) -> None:
        options.pop("confirm_publish", None)  # it would wait for the broker at each word
        self.connection.transport_options = options
        self.connection.connect_timeout = TIMEOUT_SECONDS
        self.connection.heartbeat = 0

    def ask(self, queues: Iterable[str], member: tuple[str, str] | None) -> None:
        self._ready = {}
        self._consumers = 0
        self._pending = deque(queues)
        for queue in self._pending:
            internals.ask_queue_size(self.channel, queue)
        if member is not None and self._has_counted:
            self._producer.publish(list(member), serializer="json", delivery_mode=1)
        self._has_counted = True

    def fileno(self) -> int:
        return int(self.connection.connection.sock.fileno())

    def receive(self, timeout_seconds: float = 0.0) -> Answer | None:
        try:
            while True:
                self.connection.drain_events(timeout=timeout_seconds if self._pending else 0)
        except TimeoutError:
            pass
        except self.connection.channel_errors as error:
            if getattr(error, "code", None) != NOT_FOUND or not self._pending:
                raise
            self._ready[self._pending.popleft()] = 0
            for queue in self._pending:
                internals.ask_queue_size(self.channel, queue)
        if self._pending:
            return None
        words, self._words = self._words, {}
        company = max(self._consumers - 1, 0) if self.has_members else None
        return Answer(dict(self._ready), words, company=company)

    def _size_received(self, queue: str, messages: int, consumers: int) -> None:
        self._ready[queue] = messages
        self._consumers = max(self._consumers, consumers)
        if self._pending and self._pending[0] == queue:
            self._pending.popleft()

    def _word_received(self, body: Any, message: Any) -> None:
        name, word = body
        self._words[name] = word
        if self._listens_only:
            message.ack()

    def leave(self, name: str) -> None:
        if self.has_members:
            self._producer.publish([name, ""], serializer="json", delivery_mode=1)


LINKS: Mapping[str, type[Link]] = {
    "redis": RedisLink,
    "amqp": AmqpLink,
    "memory": Link,
    "filesystem": Link,
    "sql": Link,
}
"""By ``transport.driver_type``; a transport that is not here is not measured."""


def link_type(connection: Any) -> type[Link] | None:
    """The link for a connection's transport, or ``None`` where its queues can't be measured."""
    return LINKS.get(connection.transport.driver_type)


def _text_items(reply: Any) -> dict[str, str]:
    """The reply to HGETALL: a map under RESP3, a flat list under RESP2."""
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2], strict=False))
    if not isinstance(reply, dict):
        return {}
    return {_text(name): _text(word) for name, word in reply.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
