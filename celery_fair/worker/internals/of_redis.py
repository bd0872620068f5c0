"""kombu's Redis transport, and redis-py: read in kombu 5.5.2 to 5.7.0, redis-py 4.5.2 to 8.1.0."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple

SOCKET_TIMEOUT_SECONDS = 1.0
MOST_ORDERS = 64
"""Orders of queues for which a command is kept; round robin has as many as there are queues."""
REDIS_POLLER = "Transport.register_with_event_loop.<locals>.on_poll_start"


def gate_redis_channel(channel: Any, room: Callable[[], int]) -> None:
    """As ``gate_channel``, but never shut while a BRPOP is in flight.

    Its reply may carry a message that Redis has already popped. kombu would leave it in the socket
    until the gate opens, and a SIGKILL would lose it; so only *new* BRPOPs are withheld.
    """
    channel.qos.can_consume = lambda: bool(channel._in_poll) or room() > 0


def is_pulling(channel: Any) -> bool:
    """Whether a BRPOP of this channel is in flight."""
    return bool(channel._in_poll)


def share_connections(channel: Any, other: Any) -> None:
    """Let two channels of one connection acknowledge through the same pooled Redis connection."""
    channel._pool = other.pool


def pull_in_order(channel: Any, queues: Callable[[], list[str]]) -> None:
    """Send each BRPOP of ``channel`` with all keys of the first queue before those of the next.

    kombu itself sorts by priority step first and by queue second.
    """

    def start(timeout: float | None = None) -> None:
        keys = [key for queue in queues() for key in redis_keys(channel, queue, prefixed=False)]
        if keys:
            command = _brpop(channel, keys, timeout)
            _pop(channel, channel.client.connection.pack_command(*command))

    channel._brpop_start = start


def pull_first(channel: Any, comes_first: Callable[[str], bool]) -> None:
    """Send each BRPOP of ``channel`` with the keys of some queues before those of all others.

    Among the others kombu's order stays: by priority step, and then as ``queue_order_strategy``
    has it. A command is packed once for each order of queues, since it grows with each of them:
    that takes less than kombu does for half as many keys.
    """
    packed: dict[tuple[Any, ...], Any] = {}

    def start(timeout: float | None = None) -> None:
        queues = channel._queue_cycle.consume(len(channel.active_queues))
        if not queues:
            return
        order = (timeout, *queues)
        command = packed.get(order)
        if command is None:
            if len(packed) >= MOST_ORDERS:
                packed.clear()
            first = [queue for queue in queues if comes_first(queue)]
            others = [queue for queue in queues if not comes_first(queue)]
            keys = [
                channel._q_for_pri(queue, step)
                for some in (first, others)
                for step in channel.priority_steps
                for queue in some
            ]
            command = packed[order] = channel.client.connection.pack_command(
                *_brpop(channel, keys, timeout)
            )
        _pop(channel, command)

    channel._brpop_start = start


def pull_by_turns(
    channel: Any, comes_first: Callable[[str], bool], in_order: Callable[[list[str]], list[str]]
) -> None:
    """Send each BRPOP of ``channel`` with the keys of the other queues in an order that changes.

    As ``pull_first`` but for that. It may be another one each time, and there are many keys: each
    is packed once, and a command is put together of them.
    """
    packed: dict[str, list[bytes]] = {}
    fronts: set[str] = set()
    patience: dict[float, bytes] = {}

    def start(timeout: float | None = None) -> None:
        queues = channel._queue_cycle.consume(len(channel.active_queues))
        if not queues:
            return
        for queue in queues:
            if queue not in packed:
                packed[queue] = [_bulk(key) for key in redis_keys(channel, queue)]
                if comes_first(queue):
                    fronts.add(queue)
        first = [packed[queue] for queue in queues if queue in fronts]
        others = in_order([queue for queue in queues if queue not in fronts])
        last = [packed[queue] for queue in others]
        keys = [*_step_by_step(first), *_step_by_step(last)]
        seconds = _patience(channel, timeout)
        end = patience.get(seconds)
        if end is None:
            end = patience[seconds] = _bulk(seconds)
        head = b"*%d\r\n" % (len(keys) + 2)
        _pop(channel, [b"".join((head, _BRPOP, *keys, end))])

    channel._brpop_start = start


def _step_by_step(queues: list[list[bytes]]) -> Iterable[bytes]:
    """The keys of all queues for the first priority step, then those for the next."""
    return chain.from_iterable(zip(*queues, strict=True))


def _bulk(argument: object) -> bytes:
    """One argument of a command, as Redis's protocol has it."""
    text = str(argument).encode()
    return b"$%d\r\n%b\r\n" % (len(text), text)


_BRPOP = _bulk("BRPOP")


def _patience(channel: Any, timeout: float | None) -> float:
    # kombu < 5.7 has no such setting, and waits for a second.
    return timeout or getattr(channel, "brpop_timeout", 1) or 0


def _brpop(channel: Any, keys: list[str], timeout: float | None) -> list[Any]:
    command = ["BRPOP", *keys, _patience(channel, timeout)]
    return list(channel.client._prefix_args(command)) if channel.global_keyprefix else command


def _pop(channel: Any, command: Any) -> None:
    """Send a packed BRPOP, as kombu does."""
    connection = channel.client.connection
    channel._in_poll = connection
    channel._brpop_sent_at = time.monotonic()
    connection.send_packed_command(command)


def redis_refusal(connection: Any, queue: str) -> Exception | None:
    """What Redis says to looking at the keys of ``queue``, if it is no.

    One key that a user may not use fails a whole BRPOP.
    """
    channel = connection.default_channel
    with channel.conn_or_acquire() as client:
        try:
            for key in redis_keys(channel, queue, prefixed=False):
                client.llen(key)
        except Exception as error:
            if isinstance(error, connection_error_types()):
                raise
            return error
    return None


def redis_keys(channel: Any, queue: str, prefixed: bool = True) -> list[str]:
    """The Redis keys that hold ``queue``: one list a priority step."""
    prefix = channel.global_keyprefix if prefixed else ""
    return [f"{prefix}{channel._q_for_pri(queue, step)}" for step in channel.priority_steps]


def redis_client(channel: Any) -> Any:
    """A client of redis-py over the channel's pool, with none of kombu's prefixes put to keys."""
    import redis

    return redis.Redis(connection_pool=channel.pool)


class UnackedKeys(NamedTuple):
    """Where kombu keeps what is given out: messages and times by tag, with the prefix."""

    messages: str
    since: str


def unacked_keys(channel: Any) -> UnackedKeys:
    """The keys of all messages that were given out over this transport and not acknowledged."""
    prefix = channel.global_keyprefix
    return UnackedKeys(f"{prefix}{channel.unacked_key}", f"{prefix}{channel.unacked_index_key}")


def settle_redis_channel(channel: Any) -> None:
    """Read what a lost connection still owes, so that ``Channel.close`` does not raise.

    A pending BRPOP makes ``close`` read its reply; with two lanes the first error aborts the
    other's clean-up, and everything unacknowledged waits for the visibility timeout.
    """
    connection = channel._in_poll
    if not connection:
        return
    with contextlib.suppress(Exception):
        connection._sock.settimeout(SOCKET_TIMEOUT_SECONDS)
    with contextlib.suppress(Exception):
        channel._brpop_read()
    channel._in_poll = None


def finish_redis_channel(channel: Any) -> None:
    """Read the reply of a BRPOP in flight while its consumer still takes the message.

    ``Channel.close`` would read it too, and hand a message without a consumer to any channel of the
    connection that is still open. For the last one that is none: the message would be gone.

    The signal of a cold shutdown cancels its consumer too, in the midst of a warm one that reads
    just that: then there would be no reply left for the outer one, which would wait for ever.
    """
    if channel._in_poll and not getattr(channel, "fair_is_read", False):
        channel.fair_is_read = True
        try:
            with contextlib.suppress(Exception):  # Empty, after ``brpop_timeout`` at the most
                channel._brpop_read()
        finally:
            channel.fair_is_read = False


class Unnoted(NamedTuple):
    """A message that Redis has popped, and that was not noted as unacknowledged."""

    tag: str
    payload: Any
    exchange: str
    routing_key: str


def keep_unnoted(channel: Any, kept: deque[Unnoted]) -> None:
    """Keep what was popped when the connection is lost before it could be noted.

    It is in no key of Redis then, and kombu forgets it: a message for nearly every BRPOP under way
    when a busy broker restarts, late ack or not. A channel whose messages are kept already stays as
    it is: kept twice, they would be put back twice.
    """
    append = channel.qos.append
    if hasattr(append, "keeps_unnoted"):
        return

    def noting(message: Any, delivery_tag: str) -> None:
        try:
            append(message, delivery_tag)
        except Exception:
            info = message.delivery_info
            kept.append(Unnoted(delivery_tag, message._raw, info["exchange"], info["routing_key"]))
            raise

    noting.keeps_unnoted = True  # type: ignore[attr-defined]
    channel.qos.append = noting


def return_unnoted(channel: Any, kept: deque[Unnoted]) -> None:
    """Put them back to the front of their queues; raises if this connection is lost too."""
    while kept:
        unnoted = kept[0]
        with channel.conn_or_acquire() as client:
            if client.hget(channel.unacked_key, unnoted.tag):  # only the answer was lost
                channel.qos.restore_by_tag(unnoted.tag, client)
            else:
                with client.pipeline() as pipe:
                    channel._do_restore_message(
                        unnoted.payload, unnoted.exchange, unnoted.routing_key, pipe
                    )
                    pipe.execute()
        kept.popleft()


def unwatch_before_closing(channel: Any) -> None:
    """Have a lost connection leave epoll before redis-py closes its socket.

    kombu tries it after, in vain. A pool child that was forked meanwhile has the socket open still,
    so that epoll goes on telling of it, under a number that the next connection is given: a BRPOP
    is read that has no reply, and the loop waits for it, for a second or for ever.
    """
    # The channel's own class, made for its ``disconnect``.
    connection_class, cycle = channel.async_pool.connection_class, channel.connection.cycle
    disconnect = connection_class.disconnect

    def unwatch_first(connection: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(Exception):  # not connected, or not watched
            cycle.poller.unregister(connection._sock)
        disconnect(connection, *args, **kwargs)

    connection_class.disconnect = unwatch_first


def forget_pollers(hub: Any) -> None:
    """Take out of the loop what kombu's Redis transport leaves in it with each connection.

    Called at each turn, for ever, it also keeps a lost connection's channels alive, with their
    sockets and whatever hangs on them.
    """
    for callback in list(hub.on_tick):
        if getattr(callback, "__qualname__", "") == REDIS_POLLER:
            hub.on_tick.discard(callback)


def wake_redis_poller(connection: Any, fileno: int, drain: Callable[[], None]) -> None:
    """Let ``fileno`` interrupt ``drain_events`` of a pool without a hub (gevent, eventlet)."""
    cycle = connection.transport.cycle
    get, handle_event = cycle.get, cycle.handle_event

    def get_awake(*args: Any, **kwargs: Any) -> Any:
        drain()
        return get(*args, **kwargs)

    def handle_other_event(fd: int, event: int) -> Any:
        # kombu < 5.7 would look for its channel.
        return (None, cycle) if fd == fileno else handle_event(fd, event)

    cycle.get, cycle.handle_event = get_awake, handle_other_event
    cycle.poller.register(fileno, cycle.eventflags)


def redis_link_connection(channel: Any) -> Any:
    """A connected ``redis.Connection`` of the channel's own pool, for reads that do not block."""
    pool = channel.client.connection_pool
    try:
        return pool.get_connection()
    except TypeError:  # redis-py < 5.3 wants the name of a command, later ones warn of it
        return pool.get_connection("LLEN")


def redis_fileno(connection: Any) -> int:
    """The descriptor of a connected ``redis.Connection``."""
    return int(connection._sock.fileno())


def redis_send(connection: Any, commands: Iterable[tuple[Any, ...]]) -> None:
    """Send commands without waiting for their replies."""
    connection.send_packed_command(connection.pack_commands(commands))


def redis_receive(connection: Any, replies: int) -> list[Any]:
    """Read that many replies; an error reply stands in its place."""
    received: list[Any] = []
    for _ in range(replies):
        try:
            received.append(connection.read_response())
        except connection_error_types():
            raise
        except Exception as error:  # a reply such as WRONGTYPE
            received.append(error)
    return received


def connection_error_types() -> tuple[type[BaseException], ...]:
    """What redis-py raises when the connection, not the command, has failed."""
    from redis.exceptions import ConnectionError as RedisConnectionError
    from redis.exceptions import TimeoutError as RedisTimeoutError

    return (RedisConnectionError, RedisTimeoutError, OSError)
