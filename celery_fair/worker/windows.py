"""How a lane's credit reaches the broker, by transport."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from celery_fair.worker import internals
from celery_fair.worker.lanes import Lane
from celery_fair.worker.tally import Tally

logger = logging.getLogger(__name__)

MAX_PREFETCH = 65_535
"""The largest ``prefetch_count`` of AMQP 0-9-1, a short; kombu turns prefetching *off* above it."""

SILENT_SECONDS = 0.1
"""After so long without a message, nothing is on its way, also to a loop that is busy."""

QUIET_SECONDS = 1.0
"""The same where being wrong uses up one of a message's deliveries."""

DELIVERY_COUNT = "x-delivery-count"
KEPT_ARGUMENTS = ("x-expires", "x-single-active-consumer")


class Window:
    """Nothing to do: a transport whose pulling can't be held back, so its lane is never shut."""

    round_trip_seconds = 0.005
    """How long a message that is ready may take to come: until then, silence means nothing."""
    gives_back_to_the_front = False
    """Whether what is given back becomes its queue's next message, whatever its place was."""

    looks = False
    """Whether the dispatcher is told, in the consumer's thread, before each look at the broker."""
    follows = False
    """Whether the window has to be told, by ``follow``, that its lane's room may have changed."""

    def __init__(self, lane: Lane, consumer: Any) -> None:
        self.lane = lane
        self.consumer = consumer

    def measured(self, round_trip_seconds: float) -> None:
        """The broker has just answered in that time."""

    def delivered(self, message: Any) -> None:
        """A message of this lane has come."""

    def starting(self, request: Any) -> None:
        """A request of this lane is about to be given to the pool."""

    def follow(self) -> None:
        """The lane's room may have changed."""

    def tick(self) -> None:
        """Some time has passed."""

    def freeze(self) -> None:
        """Celery is about to consume, which waits for the broker: change nothing meanwhile."""

    def thaw(self) -> None:
        """Celery consumes: the window may follow again."""

    def finish(self) -> None:
        """Celery is about to stop consuming: hold what is under way, or nobody will have it."""

    def settle(self) -> None:
        """The connection is lost and about to be closed."""

    def can_give_back(self, message: Any) -> bool:
        """Whether a message may be requeued, with nothing but its place in line changed."""
        return False


class VirtualWindow(Window):
    """kombu's virtual transports ask the channel's QoS object before each look at the broker."""

    looks = True

    def __init__(self, lane: Lane, consumer: Any, before_look: Callable[[], None]) -> None:
        super().__init__(lane, consumer)
        connection = consumer.channel.connection.client
        self.round_trip_seconds = 1.5 * (internals.polling_interval(connection) or 0.005)
        self._before_look = before_look
        internals.gate_channel(consumer.channel, self._room)

    def _room(self) -> int:
        self._before_look()
        return self.lane.room()

    def can_give_back(self, message: Any) -> bool:
        return internals.goes_back_alone(message)


class RedisWindow(Window):
    """Redis: the same, but a BRPOP under way is always read."""

    gives_back_to_the_front = True

    def __init__(self, lane: Lane, consumer: Any) -> None:
        super().__init__(lane, consumer)
        internals.gate_redis_channel(consumer.channel, lane.room)

    def measured(self, round_trip_seconds: float) -> None:
        self.round_trip_seconds = with_measured(self.round_trip_seconds, round_trip_seconds)

    def can_give_back(self, message: Any) -> bool:
        return internals.goes_back_alone(message)

    def finish(self) -> None:
        internals.finish_redis_channel(self.consumer.channel)

    def settle(self) -> None:
        internals.settle_redis_channel(self.consumer.channel)


class GreenRedisWindow(RedisWindow):
    """Redis under gevent and eventlet: ``drain_events`` is told when there is room again."""

    follows = True

    def __init__(self, lane: Lane, consumer: Any, wake: Callable[[], None]) -> None:
        super().__init__(lane, consumer)
        self._wake = wake

    def follow(self) -> None:
        if self.lane.room() > 0 and not internals.is_pulling(self.consumer.channel):
            self._wake()


class SoloRedisWindow(Window):
    """Redis under the solo pool: both lanes on one channel, in an order that the policy decides.

    A task runs inside the loop, so whatever a second BRPOP has popped would sit in the socket for
    all of that time, and the two channels would simply take turns. With one BRPOP, sent only while
    nothing runs and nothing is held, its order of keys *is* the scheduling decision.
    """

    round_trip_seconds = 0.0
    gives_back_to_the_front = True

    def __init__(
        self, lanes: Sequence[tuple[Lane, Any]], in_order: Callable[[], Sequence[Lane]]
    ) -> None:
        lane, consumer = lanes[0]
        super().__init__(lane, consumer)
        self._lanes = dict(lanes)
        self._in_order = in_order
        internals.pull_in_order(consumer.channel, self._queues)
        internals.gate_redis_channel(consumer.channel, self._room)

    def _room(self) -> int:
        if any(lane.waiting for lane in self._lanes):
            return 0
        return max(lane.room() for lane in self._lanes)

    def _queues(self) -> list[str]:
        return [
            queue
            for lane in self._in_order()
            if lane.room() > 0
            for queue in internals.active_queues(self._lanes[lane])
        ]

    def finish(self) -> None:
        internals.finish_redis_channel(self.consumer.channel)

    def settle(self) -> None:
        internals.settle_redis_channel(self.consumer.channel)


class AmqpWindow(Window):
    """RabbitMQ: ``basic.qos`` over the channel, and no consumer at all while there is no credit.

    The broker counts what is unacknowledged, so the count asked for is that plus the lane's room.
    What starts with an early ack is no longer counted: its ack is a moment away, and counting it
    until then would cost a command before and one after. A prefetch count of 0 would mean
    *unlimited*: zero credit is ``basic.cancel``. Nothing here waits for a reply, since waiting
    would deliver messages inside the call.

    Over- and under-delivery by half the credit is tolerated, so that tiny tasks, whose room changes
    with each of them, don't cost a command each; a lane without lookahead is exact.
    """

    follows = True

    def __init__(self, lane: Lane, consumer: Any) -> None:
        super().__init__(lane, consumer)
        connection = consumer.channel.connection.client
        self._errors = connection.connection_errors + connection.channel_errors
        self._frozen = True
        self._shut = False
        self._paused: set[str] = set()
        self._keeps_some = False
        self._tally = Tally()
        self._count_settled()
        internals.reconnect_without_queue(consumer.channel)

    def delivered(self, message: Any) -> None:
        self._tally.add(message.delivery_tag)

    def starting(self, request: Any) -> None:
        if internals.is_acked_early(request):
            self._tally.leave(internals.message_of(request).delivery_tag)

    def _count_settled(self) -> None:
        internals.count_settled(self.consumer.channel, self._tally.settle)

    def tick(self) -> None:
        self._tally.recount()

    def freeze(self) -> None:
        """RabbitMQ 3.10 crashes a channel on which a consumer is cancelled before consume-ok."""
        self._frozen = True
        self._prefetch(len(self._tally) + 1)  # a channel's first window is unlimited

    def thaw(self) -> None:
        self._resume()
        self._frozen = False

    def settle(self) -> None:
        self._frozen = True

    def measured(self, round_trip_seconds: float) -> None:
        self.round_trip_seconds = with_measured(self.round_trip_seconds, round_trip_seconds)

    def follow(self) -> None:
        if self._frozen:
            return
        try:
            self._follow(self.lane.room())
        except self._errors as error:  # the loop will find the connection lost by itself
            logger.debug("celery-fair: the window of %s can't follow: %r", self.lane.kind, error)
            self._frozen = True

    def _follow(self, room: int) -> None:
        if self._shut:
            if room > 0:
                self._widen(room)
            else:
                self._keep_narrow()
            return
        left, credit = self._left(), self.lane.credit
        slack = credit // 2
        if room <= 0:
            if left > slack or (credit <= 0 and left > 0):
                self._shut = True
                self._pause()
        elif left <= 0 or abs(left - room) > slack:
            self._widen(room)

    def _left(self) -> int:
        """How many more messages the broker may send."""
        return self._tally.left

    def _widen(self, room: int) -> None:
        self._prefetch(len(self._tally) + room)
        self._resume()

    def _pause(self) -> None:
        for queue in self._pausable():
            internals.pause_consumer(self.consumer, queue)
            self._paused.add(queue)
        self._keeps_some = len(self._paused) < len(internals.active_queues(self.consumer))
        self._keep_narrow()

    def _keep_narrow(self) -> None:
        """Queues that keep their consumer have a window of one, also as tasks end and are acked."""
        if self._keeps_some and self._tally.count > max(len(self._tally), 1):
            self._prefetch(max(len(self._tally), 1))

    def _resume(self) -> None:
        for queue in self._paused.intersection(internals.active_queues(self.consumer)):
            internals.resume_consumer(self.consumer, queue)
        self._paused.clear()
        self._shut = False

    def _prefetch(self, count: int) -> None:
        count = min(count, MAX_PREFETCH)
        if count != self._tally.count:
            self._tally.count = count
            internals.set_prefetch(self.consumer.channel, count, shared=True)

    def _pausable(self) -> list[str]:
        """The queues consumed now that neither vanish nor change hands without their consumer."""
        active = set(internals.active_queues(self.consumer)) - self._paused
        return [
            queue.name
            for queue in self.consumer.queues
            if queue.name in active and not is_kept(queue)
        ]

    def can_give_back(self, message: Any) -> bool:
        """Not to a quorum queue: it counts deliveries, and drops a message after twenty.

        A virtual host may make every queue one, which no declaration here tells, but the count on a
        message does: it goes back once at the most. Nor to a queue that keeps its consumer: it
        would come back at once, without end.
        """
        if DELIVERY_COUNT in (message.headers or {}):
            return False
        return not any(is_quorum(queue) or is_kept(queue) for queue in self.consumer.queues)


class AmqpConsumerWindow(AmqpWindow):
    """Quorum queues, and RabbitMQ >= 4 as kombu treats it: prefetch is a consumer's, and fixed.

    It changes by consuming again under another tag. A new consumer starts with nothing
    unacknowledged of its own, whatever the channel still owes, so each has a tally of its own, and
    what is still under way to an old one counts for none.

    A quorum queue takes back what is on its way to a consumer that is cancelled, counts that as a
    delivery, and drops a message after so many. So its consumer ends only when it can be sent
    nothing more, or has been silent for a while; until then a lane that is shut may get the rest.
    """

    def __init__(self, lane: Lane, consumer: Any) -> None:
        # Between a look at a tally and a cancel there must be no ack, which lets another one come.
        self._settling = threading.RLock()
        super().__init__(lane, consumer)
        self._counts_deliveries = False
        self._asked = 1
        """The prefetch count of the consumers that begin now."""
        self._tallies: dict[str, Tally] = {}
        """By consumer tag. Replaced, not changed: a pool's thread may be looking through it."""
        for tag in internals.consumer_tags(consumer).values():
            self._begun(tag)
        internals.on_new_tag(consumer, self._begun)

    def _begun(self, tag: str) -> None:
        self._tallies = {**self._tallies, tag: Tally(self._asked)}

    def delivered(self, message: Any) -> None:
        tally = self._tallies.get(message.delivery_info["consumer_tag"])
        if tally is not None:
            tally.add(message.delivery_tag)
        if DELIVERY_COUNT in (message.headers or {}):
            self._counts_deliveries = True  # by the virtual host's default: no declaration tells

    def starting(self, request: Any) -> None:
        if internals.is_acked_early(request):
            for tally in self._tallies.values():
                tally.leave(internals.message_of(request).delivery_tag)

    def _count_settled(self) -> None:
        internals.count_settled(self.consumer.channel, self._settled, self._settling)

    def _settled(self, delivery_tag: int) -> None:
        for tally in self._tallies.values():
            tally.settle(delivery_tag)

    def tick(self) -> None:
        for tally in self._tallies.values():
            tally.recount()

    def thaw(self) -> None:
        super().thaw()
        self._forget_old()

    def _forget_old(self) -> None:
        tags = internals.consumer_tags(self.consumer).values()
        self._tallies = {tag: self._tallies[tag] for tag in tags}

    def _left(self) -> int:
        return sum(max(tally.left, 0) for tally in self._tallies.values())

    def _follow(self, room: int) -> None:
        with self._settling:
            if room > 0 and not self._shut:
                self._serve_spent(room)
            super()._follow(room)

    def _serve_spent(self, room: int) -> None:
        """Consume anew where nothing more may be sent: it may be the only queue with messages.

        What the others may still send is theirs, unless they have been silent for a while.
        """
        if all(tally.left > 0 for tally in self._tallies.values()):
            return
        tags = internals.consumer_tags(self.consumer)
        spent = [queue for queue in self._renewable() if self._tallies[tags[queue]].left <= 0]
        free = room if self._is_silent() else room - self._left()
        if spent and free > 0:
            self._renew(spent, max(free // len(spent), 1))

    def _widen(self, room: int) -> None:
        queues, share = self._renewable(), self._share(room)
        tags = internals.consumer_tags(self.consumer)
        left = sum(max(self._tallies[tags[queue]].left, 0) for queue in queues)
        if not self._shut and room < self._left() and left <= share * len(queues):
            return  # it is to be narrowed, and new consumers would be sent as much again
        self._renew(queues, share)
        self._paused.clear()
        self._shut = False

    def _is_silent(self, seconds: float = SILENT_SECONDS) -> bool:
        return monotonic() - self.lane.asked_at >= seconds

    def _may_end(self, queue: Any) -> bool:
        """Whether nothing can be on its way, which the queue would take back and count."""
        if not (self._counts_deliveries or is_quorum(queue)):
            return True
        tag = internals.consumer_tags(self.consumer)[queue.name]
        return self._tallies[tag].is_spent

    def _pausable(self) -> list[str]:
        """Once it is silent, of the queues that count deliveries too: a message may come just now,
        but hardly each time."""
        silent = self._is_silent(QUIET_SECONDS)
        ready = {queue.name for queue in self._active() if silent or self._may_end(queue)}
        return [queue for queue in super()._pausable() if queue in ready]

    def _renew(self, queues: Sequence[str], count: int) -> None:
        """Have each of these queues send so many from now on, whatever it has sent."""
        ready = {queue.name for queue in self._active() if self._may_end(queue)}
        pausable = ready.intersection(self._pausable())
        queues = [queue for queue in queues if queue in self._paused or queue in ready]
        for queue in queues:
            if queue in pausable:
                internals.pause_consumer(self.consumer, queue)
        if queues:
            self._prefetch(count)
        for queue in queues:
            if queue in pausable or queue in self._paused:
                internals.resume_consumer(self.consumer, queue)
            else:
                internals.replace_consumer(self.consumer, queue)
        self._forget_old()

    def _keep_narrow(self) -> None:
        """Cancel what may be by now; a queue that keeps its consumer has a window of one."""
        if not self._keeps_some:
            return
        for queue in self._pausable():
            internals.pause_consumer(self.consumer, queue)
            self._paused.add(queue)
        tags = internals.consumer_tags(self.consumer)
        wide = [
            queue
            for queue in self._renewable()
            if queue not in self._paused and self._tallies[tags[queue]].count > 1
        ]
        if wide:
            self._renew(wide, 1)

    def _renewable(self) -> list[str]:
        """The queues consumed now, but for those that a new consumer would have to stand in line
        for: they keep the window that they began with, one."""
        return [queue.name for queue in self._active() if not is_single_active(queue)]

    def _active(self) -> list[Any]:
        """The ``kombu.Queue`` of each consumer."""
        active = internals.consumer_tags(self.consumer)
        return [queue for queue in self.consumer.queues if queue.name in active]

    def _prefetch(self, count: int) -> None:
        self._asked = min(count, MAX_PREFETCH)
        internals.set_prefetch(self.consumer.channel, self._asked, shared=False)

    def _share(self, count: int) -> int:
        """What each consumer may hold of ``count``: one at the least."""
        return max(count // max(len(self._renewable()), 1), 1)


def with_measured(known_seconds: float, measured_seconds: float) -> float:
    """Twice the round trip, smoothed: between 1 ms, which a busy loop takes, and 50 ms."""
    smoothed = 0.8 * known_seconds + 0.2 * 2 * measured_seconds
    return min(max(smoothed, 0.001), 0.05)


def is_quorum(queue: Any) -> bool:
    """Whether a ``kombu.Queue`` is declared as a quorum queue."""
    return (queue.queue_arguments or {}).get("x-queue-type") == "quorum"


def is_single_active(queue: Any) -> bool:
    """Whether a ``kombu.Queue`` has one active consumer, and others that wait for its end."""
    return bool((queue.queue_arguments or {}).get("x-single-active-consumer"))


def is_kept(queue: Any) -> bool:
    """Whether a ``kombu.Queue`` must not be left without a consumer."""
    arguments = {**(queue.queue_arguments or {})}
    kept = any(arguments.get(name) for name in KEPT_ARGUMENTS) or queue.expires is not None
    return bool(queue.auto_delete or kept)
