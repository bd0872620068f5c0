"""Front queues: ``<queue>.front`` beside a queue, consumed first by the same workers.

No broker publishes to the front of a queue, so what is to run next has a queue of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from kombu import Connection, Exchange, Queue
from kombu.exceptions import LimitExceeded

from celery_fair.sharding.names import COPIED, home_of, is_shard

if TYPE_CHECKING:
    from celery_fair.app import Fair

#: What the front of a queue has behind its name.
FRONT: Final = ".front"

#: Transports (kombu's ``driver_type``) on which one more queue to consume costs next to nothing.
#: On SQS and its like each look at an empty queue is a request to be paid for.
TRANSPORTS: Final = frozenset({"redis", "amqp", "memory", "filesystem", "sql"})

#: How long an answer of the broker is believed, in seconds.
FRESH_SECONDS: Final = 5.0

#: The longest name of a queue in AMQP 0-9-1, in bytes.
LONGEST_NAME: Final = 255

#: Arguments of queues that vanish when nobody consumes them, or that keep messages in an order.
LEFT_ALONE: Final = ("x-expires", "x-single-active-consumer")


def front_of(queue: str) -> str:
    """Return the name of the queue that is consumed before ``queue``, by the same workers."""
    return queue + FRONT


def with_front(queue: str) -> tuple[str, ...]:
    """Return what is consumed for ``queue``, in that order; a shard has no front."""
    return (queue,) if is_shard(queue) else (front_of(queue), queue)


def is_front(queue: str) -> bool:
    """Whether that is the name of a front; it has no front of its own."""
    return queue.endswith(FRONT)


def behind(front: str) -> str:
    """Return the queue that a front belongs to."""
    return front.removesuffix(FRONT)


def without_front(queue: str) -> str:
    """Return the queue that is meant: the one behind a front, or the queue itself."""
    return behind(queue) if is_front(queue) else queue


def without_fronts(queues: Iterable[str]) -> list[str]:
    """Return the queues but for the fronts of others among them, which nobody has to know of."""
    names = list(queues)
    known = set(names)
    return [name for name in names if not (is_front(name) and behind(name) in known)]


def fronts_first(queues: Collection[str]) -> list[str]:
    """Return the queues as they are, but for the fronts of others among them before all."""
    known = set(queues)
    return sorted(queues, key=lambda name: not (is_front(name) and behind(name) in known))


def without_parts(queues: Iterable[str]) -> list[str]:
    """Return the queues but for the fronts and the shards of others among them."""
    names = list(queues)
    known = set(names)
    return [name for name in names if (whole := whole_of(name)) == name or whole not in known]


def whole_of(queue: str) -> str:
    """Return the queue of which this one is a part, a front or a shard; any other is its own."""
    return behind(queue) if is_front(queue) else home_of(queue)


def may_have_front(queue: Any, is_part: Callable[[str], bool]) -> bool:
    """Whether a ``kombu.Queue`` may have a front; ``is_part`` is that of its `Fair`.

    Not one that vanishes without a consumer, since messages are sent to a front without declaring
    it; nor one whose order is the point; nor one that this app may not declare.
    """
    arguments = queue.queue_arguments or {}
    return not (
        is_part(queue.name)  # it has that of the queue it belongs to
        or queue.no_declare
        or queue.auto_delete
        or queue.exclusive
        or queue.expires is not None
        or any(arguments.get(name) for name in LEFT_ALONE)
        or arguments.get("x-queue-type") == "stream"
        or (queue.exchange.name and queue.exchange.type not in ("direct", "topic"))
        or len(front_of(queue.name).encode()) > LONGEST_NAME
    )


def front_like(queue: Any) -> Any:
    """Return the front of a ``kombu.Queue``: declared as it is, reached by its name alone."""
    arguments = dict(queue.queue_arguments or {})
    if "x-dead-letter-exchange" in arguments:  # a dead message keeps the key that it had
        arguments.setdefault("x-dead-letter-routing-key", queue.name)
    name = front_of(queue.name)
    return Queue(
        name,
        Exchange("", delivery_mode=queue.exchange.delivery_mode),
        name,
        queue_arguments=arguments or None,
        **{attribute: getattr(queue, attribute) for attribute in COPIED},
    )


class Fronts:
    """Whether a message may be sent to the front of a queue, in this process."""

    def __init__(self, fair: Fair) -> None:
        self._fair = fair
        self._lock = Lock()
        self._known: dict[tuple[str, str | None], tuple[float, bool]] = {}
        #: Whether this process is a worker, or a child of one, that consumes fronts first.
        self.served = False

    def takes(self, queue: str, options: Mapping[str, Any]) -> bool:
        """Whether ``queue`` has a front, as far as the broker tells. Asks it now and then.

        ``options`` are those of the publish: its ``producer`` may reach another broker.
        """
        if not self._fair.settings.front_queues:
            return False
        given = _given_connection(options)
        now, key = monotonic(), (queue, None if given is None else given.as_uri())
        with self._lock:
            known = self._known.get(key)
        if known is not None and now < known[0]:
            return known[1]
        try:
            found = self._ask(front_of(queue), given)
        except LimitExceeded:  # all are in use: nothing is known of the front
            return False
        with self._lock:
            self._known[key] = (now + FRESH_SECONDS, found)
        return found

    def _ask(self, front: str, given: Any) -> bool:
        """RabbitMQ drops without a word what is sent to a queue that isn't there.

        Workers declare fronts; one that may not has none, and Redis says so to this process too.
        Raises ``LimitExceeded``: who publishes may hold the pool's last connection already, so
        that to wait for another could be to wait for ever.
        """
        try:
            with self._connection(given) as connection:
                driver = connection.transport.driver_type
                if driver == "amqp":
                    with connection.channel() as channel:
                        channel.queue_declare(front, passive=True)
                elif driver == "redis":
                    with connection.channel() as channel, channel.conn_or_acquire() as client:
                        client.llen(front)
                return driver in TRANSPORTS
        except LimitExceeded:
            raise
        except Exception:  # not there, or not allowed; if it is the connection, publishing says so
            return False

    def _connection(self, given: Any) -> AbstractContextManager[Any]:
        if given is not None:
            return nullcontext(given)
        acquired: AbstractContextManager[Any] = self._fair.app.pool.acquire(block=False)
        return acquired


def _given_connection(options: Mapping[str, Any]) -> Any:
    """Return the connection that a call is to be published on, or None; as Celery looks at it."""
    found = options.get("connection") or getattr(options.get("producer"), "connection", None)
    return found if isinstance(found, Connection) else None
