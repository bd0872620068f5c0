"""Every private or version-dependent name of Celery, kombu, redis-py and py-amqp that we lean on.

Read in Celery 5.5.0 to 5.7.0, kombu 5.5.2 to 5.7.0, py-amqp 5.4.2, redis-py 4.5.2 to 8.1.0 and
billiard 4.3.2. Nothing else in the package touches an underscore of theirs, so that an upgrade is
read against this one file; ``tests/integration/test_internals.py`` fails when one of them moves.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from celery.worker import state
from celery.worker.consumer.tasks import Tasks
from celery.worker.request import Request

SOCKET_TIMEOUT_SECONDS = 1.0
REDIS_POLLER = "Transport.register_with_event_loop.<locals>.on_poll_start"
RESULT_READER = "_recv_message"
"""The generator of ``AsynPool``'s ``ResultHandler``, which stays with the loop until it has all."""
RESULT_SECONDS = 1.0
LONGEST_KEY = 255
"""Characters of a routing key, as in AMQP: to a topic exchange a publisher may send any."""
STALE_TAGS = 64
"""Cancelled consumers of a channel whose callback is kept for deliveries under way."""


# --- celery.worker ---------------------------------------------------------------------------


def request_of(callback: Any) -> Any:
    """The ``Request`` whose bound method ``callback`` is (``Request.execute_using_pool``)."""
    return getattr(callback, "__self__", None)


def message_of(request: Any) -> Any:
    """The kombu message behind a request, without the property look-up per task."""
    return request._message


def was_revoked(request: Any) -> bool:
    """Whether Celery has already settled this request as revoked or expired.

    ``WorkController._process_task`` swallows ``TaskRevokedError``, so the flag is all there is.
    """
    return bool(request._already_revoked)


def queue_of(request: Any) -> str | None:
    """The routing key it came by, which is its queue's name unless somebody bound it otherwise."""
    key = (request.delivery_info or {}).get("routing_key")
    return key if key is None else str(key)[:LONGEST_KEY]


def was_asked_to_end(request: Any) -> bool:
    """Whether it was revoked while it ran, or cancelled by Celery as its connection was lost."""
    return bool(request._already_revoked or request._already_cancelled)


def may_be_revoked(request: Any) -> bool:
    """Whether ``request.revoked()``, which looks at everything, could find it to be so.

    A task's own ``Request`` class may know other reasons.
    """
    return bool(
        request._already_revoked
        or request.expires
        or request.id in state.revoked
        or state.revoked_stamps
        or type(request).revoked is not Request.revoked
    )


def process_parked_with(worker: Any, process: Callable[..., None]) -> None:
    """Have ``process(process_task, request)`` called when prefork's semaphore lets a request pass.

    ``WorkController._process_task_sem`` looks ``_process_task`` up for each request; where there is
    no semaphore, that method itself was bound long ago, and nothing comes by here.
    """
    worker._process_task = partial(process, worker._process_task)


def is_acked_early(request: Any) -> bool:
    """Whether Celery acknowledges this request's message as soon as the pool has accepted it."""
    return not request.task.acks_late


def forget_request(request: Any) -> None:
    """Take a request that goes back to the broker out of Celery's books.

    ``acknowledged`` keeps a later ``revoke`` or shutdown from settling the message again.
    """
    request.acknowledged = True
    state.task_ready(request)


def event_sender(consumer: Any) -> Callable[..., Any] | None:
    """What sends events of this worker, unless it was started without any."""
    dispatcher = getattr(consumer, "event_dispatcher", None)
    return dispatcher.send if dispatcher is not None and dispatcher.enabled else None


def scheduled_requests(timer: Any) -> list[Any]:
    """The requests that wait for their ETA; Celery < 5.7 knows them by the entries of its timer."""
    if hasattr(state, "scheduled_requests"):
        # A weak set can't be copied at once, and other threads write in it where there is no loop.
        return [request for request in known_requests() if request in state.scheduled_requests]
    entries = [waiting.entry for waiting in list(timer.schedule._queue)]
    return [
        argument
        for entry in entries
        for argument in (entry.args or ())[:1]
        if isinstance(argument, Request) and not entry.canceled
    ]


def is_flagged_revoked(request: Any) -> bool:
    """Whether the id was revoked; ``Request.revoked`` asks more, and announces what it finds."""
    return request.id in state.revoked


def eta_task_limit(app: Any) -> int | None:
    """``worker_eta_task_limit``, which Celery has since 5.6."""
    return app.conf.get("worker_eta_task_limit")


def is_qos_global(consumer: Any) -> bool:
    """Whether a prefetch count is a channel's, not each consumer's, as Celery has found out.

    Only its ``Tasks`` step knows that before 5.7.
    """
    if hasattr(consumer, "qos_global"):
        return bool(consumer.qos_global)
    return next(bool(step.qos_global(consumer)) for step in consumer.steps if type(step) is Tasks)


def is_known(request: Any) -> bool:
    """Whether Celery still counts ``request`` as reserved or active (by identity, not by id)."""
    return request in state.active_requests or request in state.reserved_requests


def is_running(pool: Any) -> bool:
    """Whether the pool takes work: false from the signal for a warm shutdown on.

    The loop of gevent and eventlet may take two seconds to notice the signal, and close the pool.
    """
    stopping = state.should_stop is not None and state.should_stop is not False
    return bool(pool._state == pool.RUN) and not stopping


def known_requests() -> list[Any]:
    """Every request in Celery's books, copied at once: other threads write in them."""
    return list(state.requests.values())


def count_no_more(request: Any) -> None:
    """Take a request that has ended out of Celery's books, as its own callbacks would."""
    state.task_ready(request)


def gevent_size(pool: Any) -> int:
    """The places of gevent's pool; before Celery 5.7 ``num_processes`` is those in use."""
    return int(pool._pool.size)


def newest_green_thread(pool: Any) -> Any:
    """The green thread that eventlet's pool has just spawned; it has not begun yet."""
    return next(reversed(pool._pool_map.values()))


@contextlib.contextmanager
def running_jobs_kept(pool: Any) -> Iterator[None]:
    """Have prefork remember, over a flush, what its children run.

    Celery 5.5 forgets those jobs where none is being written, and no callback comes; before 5.7 it
    takes each child for idle, and may have a job wait behind the one that runs.
    """
    processes: Any = getattr(pool, "_pool", None)
    if not hasattr(processes, "_busy_workers"):
        yield
        return
    running = {
        number: job for number, job in processes._cache.items() if job._accepted and not job.ready()
    }
    busy = set(processes._busy_workers)
    yield
    running = {number: job for number, job in running.items() if not job.ready()}
    processes._cache.update(running)
    children = [job._write_to for job in running.values() if job._write_to is not None]
    still_busy = {child.inqW_fd for child in children if child._is_alive()}
    processes._busy_workers.update(busy & still_busy)


def end_timer(entry: Any) -> None:
    """End what ``timer.call_repeatedly`` has begun, on every pool.

    The timers of gevent and eventlet return the greenlet of the first call, which is long over:
    only its ``entry`` ends the repetition, after the call that is due.
    """
    getattr(entry, "entry", entry).cancel()
    entry.cancel()


# --- kombu virtual transports ----------------------------------------------------------------


def is_virtual(channel: Any) -> bool:
    """Whether prefetching happens in this process, through ``channel.qos.can_consume``."""
    return hasattr(channel, "qos") and hasattr(channel.qos, "can_consume")


def gate_channel(channel: Any, room: Callable[[], int]) -> None:
    """Let ``room`` decide how many more messages ``channel`` may take.

    Set on the instance, and again for each new channel, so that it replaces the wrapper of
    ``worker_disable_prefetch`` (which counts *all* reserved requests) and never stacks.
    """
    channel.qos.can_consume = lambda: room() > 0
    channel.qos.can_consume_max_estimate = lambda: max(room(), 0)


def queue_size(channel: Any, queue: str) -> int:
    """Messages ready in a virtual queue, where asking costs no round trip."""
    return int(channel._size(queue))


def polling_interval(connection: Any) -> float | None:
    """Seconds between two looks of a transport that polls; ``None`` where it is woken."""
    if connection.transport.driver_type in ("redis", "amqp"):
        return None
    return float(getattr(connection.transport, "polling_interval", None) or 1.0)


def goes_back_alone(message: Any) -> bool:
    """Whether giving a message back reaches its own queue only.

    A virtual channel publishes it anew, to *every* queue that its exchange and key are bound to.
    """
    info = message.delivery_info
    return len(message.channel._lookup(info["exchange"], info["routing_key"])) == 1


def return_to_broker(message: Any) -> None:
    """Give an unacknowledged message back, to the *front* of its queue where there is a choice.

    On Redis ``requeue`` pushes to the end that is read last, ``restore_by_tag`` to the one that is
    read first. RabbitMQ puts a requeued message back where it was.
    """
    qos: Any = getattr(message.channel, "qos", None)
    if not hasattr(qos, "restore_by_tag"):
        message.requeue()
        return
    qos.restore_by_tag(message.delivery_tag)
    qos._quick_ack(message.delivery_tag)
    message._state = "REQUEUED"


# --- kombu's Redis transport -----------------------------------------------------------------


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
        if not keys:
            return
        connection = channel.client.connection
        channel._in_poll = connection
        channel._brpop_sent_at = time.monotonic()
        # kombu < 5.7 has no such setting, and waits for a second.
        command = ["BRPOP", *keys, timeout or getattr(channel, "brpop_timeout", 1) or 0]
        if channel.global_keyprefix:
            command = channel.client._prefix_args(command)
        connection.send_command(*command)

    channel._brpop_start = start


def redis_keys(channel: Any, queue: str, prefixed: bool = True) -> list[str]:
    """The Redis keys that hold ``queue``: one list a priority step."""
    prefix = channel.global_keyprefix if prefixed else ""
    return [f"{prefix}{channel._q_for_pri(queue, step)}" for step in channel.priority_steps]


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
    """
    if channel._in_poll:
        with contextlib.suppress(Exception):  # Empty, after ``brpop_timeout`` at the most
            channel._brpop_read()


class Unnoted(NamedTuple):
    """A message that Redis has popped, and that was not noted as unacknowledged."""

    tag: str
    payload: Any
    exchange: str
    routing_key: str


def keep_unnoted(channel: Any, kept: deque[Unnoted]) -> None:
    """Keep what was popped when the connection is lost before it could be noted.

    It is in no key of Redis then, and kombu forgets it: a message for nearly every BRPOP under way
    when a busy broker restarts, late ack or not.
    """
    append = channel.qos.append

    def noting(message: Any, delivery_tag: str) -> None:
        try:
            append(message, delivery_tag)
        except Exception:
            info = message.delivery_info
            kept.append(Unnoted(delivery_tag, message._raw, info["exchange"], info["routing_key"]))
            raise

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


def finish_results(hub: Any) -> None:
    """Read to its end what a pool child is in the midst of sending, before ``Hub.reset``.

    A result over 16 kB, such as any failure with its traceback, comes in two writes. ``reset``
    forgets the reader that has had the first, and the next takes the rest for a new result: the
    worker ends with "Unrecoverable error: UnpicklingError", as plain Celery's does, or that child's
    results are never read again.
    """
    deadline = time.monotonic() + RESULT_SECONDS
    for reader, _ in list(hub.readers.values()):
        if getattr(reader, "__name__", "") == RESULT_READER:
            # It ends with StopIteration, or with an error of its own: the child may be gone, and
            # what it has told meets the lost connection.
            with contextlib.suppress(Exception):
                while time.monotonic() < deadline:
                    next(reader)
                    time.sleep(0.001)


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


# --- redis-py --------------------------------------------------------------------------------


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


# --- py-amqp ---------------------------------------------------------------------------------


def set_prefetch(channel: Any, count: int, shared: bool) -> None:
    """``basic.qos`` without waiting for its reply.

    ``Channel.basic_qos`` waits, and *delivers messages inside the call*; py-amqp drops an ``-ok``
    that nobody waits for.
    """
    from amqp import spec

    channel.send_method(spec.Basic.Qos, "lBb", (0, count, shared))


def pause_consumer(consumer: Any, queue: str) -> None:
    """Cancel a consumer without waiting; what is already under way is still delivered to it."""
    consumer.channel.basic_cancel(consumer._active_tags[queue], nowait=True)


def resume_consumer(consumer: Any, queue: str) -> None:
    """Consume again under a new tag.

    A quorum queue goes on counting the deliveries of a cancelled consumer that has messages
    unacknowledged; under the same tag RabbitMQ sees a gap, delivers those again, or (3.10) crashes
    the channel with 541. What is under way to an old tag still finds its callback, for a while.
    """
    bound = consumer._queues[queue]
    stale: deque[str] = consumer.__dict__.setdefault("fair_stale_tags", deque())
    stale.append(consumer._active_tags[queue])
    if len(stale) > STALE_TAGS:
        consumer.channel.callbacks.pop(stale.popleft(), None)
    tag = consumer._add_tag(bound)
    bound.consume(tag, consumer._receive_callback, no_ack=consumer.no_ack, nowait=True)


def replace_consumer(consumer: Any, queue: str) -> None:
    """Consume again under a new tag, and end the old consumer only then.

    So that a queue is never without one, where it would vanish.
    """
    old = consumer._active_tags[queue]
    resume_consumer(consumer, queue)
    consumer.channel.basic_cancel(old, nowait=True)


def consumer_tags(consumer: Any) -> dict[str, str]:
    """The tag of the present consumer of each queue; a paused one has its last."""
    return dict(consumer._active_tags)


def on_new_tag(consumer: Any, begun: Callable[[str], None]) -> None:
    """Call ``begun(tag)`` for each consumer, before the broker is asked for it.

    Afterwards is too late: while Celery waits for consume-ok, messages are delivered.
    """
    add_tag = consumer._add_tag

    def noting(*args: Any) -> str:
        tag: str = add_tag(*args)
        begun(tag)
        return tag

    consumer._add_tag = noting


def active_queues(consumer: Any) -> list[str]:
    """The names of the queues that ``consumer`` was asked to consume from."""
    return list(consumer._active_tags)


def count_settled(
    channel: Any,
    settled: Callable[[int], None],
    lock: contextlib.AbstractContextManager[Any] | None = None,
) -> None:
    """Call ``settled(delivery_tag)`` for each message that is acknowledged or rejected.

    Holding ``lock`` until that has been sent: a pool's thread may do it.
    """

    def counting(method: Callable[..., Any], delivery_tag: int, *args: Any, **kwargs: Any) -> Any:
        settled(delivery_tag)
        return method(delivery_tag, *args, **kwargs)

    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock or contextlib.nullcontext():
            return counting(*args, **kwargs)

    method = counting if lock is None else locked
    channel.basic_ack = partial(method, channel.basic_ack)
    channel.basic_reject = partial(method, channel.basic_reject)


def reconnect_without_queue(channel: Any) -> None:
    """Have a queue that is gone when its consumer resumes end like one that goes under a consumer.

    The server answers ``basic.consume`` with 404, a channel error, which ends the worker. Had the
    consumer not been paused, the server would have cancelled it, and ``ConsumerCancelled`` makes
    Celery reconnect and declare the queue again.
    """
    from amqp import spec
    from amqp.exceptions import ConsumerCancelled, NotFound

    on_close = channel._on_close

    def closed(code: int, text: str, class_id: int, method_id: int) -> None:
        try:
            on_close(code, text, class_id, method_id)
        except NotFound as error:
            if (class_id, method_id) == spec.Basic.Consume:
                raise ConsumerCancelled(text, spec.Basic.Cancel) from error
            raise

    channel._callbacks[spec.Channel.Close] = closed


def ask_queue_size(channel: Any, queue: str) -> None:
    """Send a passive declare without waiting for its reply."""
    from amqp import spec

    channel.send_method(spec.Queue.Declare, "BsbbbbbF", (0, queue, True, *(False,) * 4, {}))


def on_queue_size(channel: Any, received: Callable[[str, int, int], None]) -> None:
    """Call ``received(queue, messages, consumers)`` for each answer to ``ask_queue_size``."""
    from amqp import spec

    channel._callbacks[spec.Queue.DeclareOk] = received


def keep_prefetch(consumer: Any) -> None:
    """Keep Celery from lowering and restoring a prefetch count after a reconnect: lanes have none.

    ``Consumer._restore_prefetch_count_after_connection_restart`` does nothing with the flag set.
    """
    consumer._maximum_prefetch_restored = True
