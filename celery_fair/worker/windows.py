"""How a lane's credit reaches the broker, by transport (RabbitMQ: ``amqp_windows``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from celery_fair.front import behind, fronts_first, is_front
from celery_fair.policy.heads import Heads
from celery_fair.policy.kinds import Kind
from celery_fair.worker import internals
from celery_fair.worker.lanes import Lane

NO_HEADS: Mapping[Kind, Heads] = MappingProxyType({})


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

    def rest(self) -> None:
        """Celery has stopped consuming, and may begin anew later."""

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

    def __init__(self, lane: Lane, consumer: Any, heads: Heads | None = None) -> None:
        super().__init__(lane, consumer)
        if heads is None:
            internals.pull_first(consumer.channel, self._is_front)
        else:
            internals.pull_by_turns(
                consumer.channel,
                self._is_front,
                lambda queues: heads.in_order(queues, lane.is_capped),
            )
        internals.gate_redis_channel(consumer.channel, lane.room)

    def _is_front(self, queue: str) -> bool:
        """Whether it is the front of another one here, and not a queue that is called so."""
        return is_front(queue) and behind(queue) in self.consumer.channel.active_queues

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

    def __init__(
        self, lane: Lane, consumer: Any, wake: Callable[[], None], heads: Heads | None = None
    ) -> None:
        super().__init__(lane, consumer, heads)
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
        self,
        lanes: Sequence[tuple[Lane, Any]],
        in_order: Callable[[], Sequence[Lane]],
        heads: Mapping[Kind, Heads] = NO_HEADS,
    ) -> None:
        lane, consumer = lanes[0]
        super().__init__(lane, consumer)
        self._lanes = dict(lanes)
        self._in_order = in_order
        self._heads = heads
        internals.pull_in_order(consumer.channel, self._queues)
        internals.gate_redis_channel(consumer.channel, self._room)

    def _room(self) -> int:
        if any(lane.waiting for lane in self._lanes if not lane.paused):
            return 0
        return max(lane.room() for lane in self._lanes)

    def _queues(self) -> list[str]:
        return [
            queue
            for lane in self._in_order()
            if lane.room() > 0
            for queue in fronts_first(self._by_turns(lane))
        ]

    def _by_turns(self, lane: Lane) -> list[str]:
        queues, heads = internals.active_queues(self._lanes[lane]), self._heads.get(lane.kind)
        return queues if heads is None else heads.in_order(queues, lane.is_capped)

    def finish(self) -> None:
        internals.finish_redis_channel(self.consumer.channel)

    def settle(self) -> None:
        internals.settle_redis_channel(self.consumer.channel)


def with_measured(known_seconds: float, measured_seconds: float) -> float:
    """Twice the round trip, smoothed: between 1 ms, which a busy loop takes, and 50 ms."""
    smoothed = 0.8 * known_seconds + 0.2 * 2 * measured_seconds
    return min(max(smoothed, 0.001), 0.05)
