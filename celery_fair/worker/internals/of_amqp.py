"""py-amqp 5.4.2, and what kombu's consumers have of it: read in kombu 5.5.2 to 5.7.0."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

STALE_TAGS = 64
"""Cancelled consumers of a channel whose callback is kept for deliveries under way."""


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
