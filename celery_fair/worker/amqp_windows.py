"""How a lane's credit reaches RabbitMQ: prefetch counts, and consumers that come and go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any

from celery_fair.front import behind, fronts_first, is_front
from celery_fair.worker import internals
from celery_fair.worker.lanes import Lane
from celery_fair.worker.tally import Tally
from celery_fair.worker.windows import Window, with_measured

logger = logging.getLogger(__name__)

MAX_PREFETCH = 65_535
"""The largest ``prefetch_count`` of AMQP 0-9-1, a short; kombu turns prefetching *off* above it."""

SILENT_SECONDS = 0.1
"""After so long without a message, nothing is on its way, also to a loop that is busy."""

QUIET_SECONDS = 1.0
"""The same where being wrong uses up one of a message's deliveries."""

DELIVERY_COUNT = "x-delivery-count"
KEPT_ARGUMENTS = ("x-expires", "x-single-active-consumer")


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
        message = internals.message_of(request)
        if internals.is_acked_early(request) and message.channel is self.consumer.channel:
            self._leave(message.delivery_tag)

    def _leave(self, delivery_tag: int) -> None:
        self._tally.leave(delivery_tag)

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

    def rest(self) -> None:
        self._paused.clear()  # all are consumed anew, and none a second time

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
        paused = self._paused.intersection(internals.active_queues(self.consumer))
        # Fronts before the others: the first to be consumed again is sent what there is room for.
        for queue in fronts_first(paused):
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

    The front of a queue, which is nearly always empty, may send one message beyond the lane's room:
    a part of the room would be taken from the queue, for nothing.
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
        self._beyond: frozenset[str] = frozenset()
        """The tags of consumers of fronts."""
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

    def _leave(self, delivery_tag: int) -> None:
        for tally in self._tallies.values():
            tally.leave(delivery_tag)

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
        tags = internals.consumer_tags(self.consumer)
        self._tallies = {tag: self._tallies[tag] for tag in tags.values()}
        self._beyond = frozenset(tags[queue] for queue in self._fronts())

    def _left(self) -> int:
        beyond = self._beyond
        return sum(max(tally.left, 0) for tag, tally in self._tallies.items() if tag not in beyond)

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
        fronts = self._fronts()
        self._renew([queue for queue in spent if queue in fronts], 1)
        spent = [queue for queue in spent if queue not in fronts]
        free = room if self._is_silent() else room - self._left()
        if spent and free > 0:
            self._renew(spent, max(free // len(spent), 1))

    def _widen(self, room: int) -> None:
        queues, share = self._shared(), self._share(room)
        tags = internals.consumer_tags(self.consumer)
        left = sum(max(self._tallies[tags[queue]].left, 0) for queue in queues)
        if not self._shut and room < self._left() and left <= share * len(queues):
            return  # it is to be narrowed, and new consumers would be sent as much again
        self._renew(queues, share)
        self._renew(self._fronts() if self._shut else (), 1)
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

    def _fronts(self) -> list[str]:
        """Those that stand before another queue consumed now."""
        names = self._renewable()
        return [name for name in names if is_front(name) and behind(name) in names]

    def _shared(self) -> list[str]:
        """The queues that the room is divided among."""
        fronts = self._fronts()
        return [name for name in self._renewable() if name not in fronts]

    def _active(self) -> list[Any]:
        """The ``kombu.Queue`` of each consumer."""
        active = internals.consumer_tags(self.consumer)
        return [queue for queue in self.consumer.queues if queue.name in active]

    def _prefetch(self, count: int) -> None:
        self._asked = min(count, MAX_PREFETCH)
        internals.set_prefetch(self.consumer.channel, self._asked, shared=False)

    def _share(self, count: int) -> int:
        """What each consumer may hold of ``count``: one at the least."""
        return max(count // max(len(self._shared()), 1), 1)


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
