"""What one would write first: each double puts one trap back, to show that its test can fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_fair.policy import Policy
from celery_fair.worker import (
    amqp_windows,
    consumer,
    dispatcher,
    giving_back,
    holding,
    hooks,
    internals,
    lanes,
    measuring,
    pools,
    pulling,
    scheduler,
    slots,
    steps,
    waker,
    windows,
)
from celery_fair.worker.amqp_windows import AmqpConsumerWindow, AmqpWindow
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.internals import of_redis
from celery_fair.worker.lanes import Lane
from celery_fair.worker.links import Answer, Link
from celery_fair.worker.pools import Pool

DOUBLES: dict[str, Callable[[], None]] = {}


def double(install: Callable[[], None]) -> Callable[[], None]:
    DOUBLES[install.__name__] = install
    return install


@double
def shut_under_a_pop() -> None:
    """T1: the gate also stops the reading of a BRPOP that is in flight."""
    internals.gate_redis_channel = internals.gate_channel


@double
def leave_pops_unread() -> None:
    """T2: a lost connection's pending BRPOPs are left to ``Channel.close``."""
    internals.settle_redis_channel = lambda channel: None


@double
def forget_the_unnoted() -> None:
    """What was popped, and could not be noted as unacknowledged, is forgotten, as kombu does."""
    internals.keep_unnoted = lambda channel, kept: None


@double
def close_while_watched() -> None:
    """A lost connection's socket is closed and then taken out of epoll, as kombu does."""
    internals.unwatch_before_closing = lambda channel: None


@double
def pump_in_the_callback() -> None:
    """T3: the completion callback itself dispatches the next task."""
    pools.GeventPool.apply = Pool.apply
    pools.GreenPool.when_freed = Pool.when_freed


@double
def two_channels_for_solo() -> None:
    """T4: a channel a lane, though one task blocks the loop that serves both."""
    pulling.Puller._one_channel = property(lambda self: False)


@double
def solo_takes_turns() -> None:
    """T4: one channel, but its queues in kombu's own order, which is a round robin."""
    internals.pull_in_order = lambda channel, queues: None


@double
def start_unasked() -> None:
    """T6: a request is given to the worker without asking whether it was revoked."""

    def start(self: Dispatcher, lane: Lane, now: float) -> None:
        held = lane.take(now)
        self.slots.take(lane.kind, held.request, now)
        self.policy.start(lane.kind, now)
        self._process_task(held.request)

    Dispatcher._start = start


@double
def keep_flushed_slots() -> None:
    """T5: jobs that the pool has flushed keep their slots until the audit finds them."""
    slots.Slots.release_unaccepted = lambda self: None


@double
def hold_over_a_loss() -> None:
    """T5: a lane goes on with what it held when its connection is lost."""
    lanes.Lane.close = lambda self: None


@double
def audit_at_once() -> None:
    """T8: a slot is freed as soon as the child that ran its task is gone."""
    import psutil

    def is_alive(request: Any) -> bool:
        try:
            return psutil.Process(request.worker_pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    audit = slots.Slots.audit

    def audit_once(self: slots.Slots, is_known: Any) -> list[Any]:
        self._suspects = set(self.taken)
        return audit(self, is_known)

    scheduler.AUDIT_SECONDS = 0.0
    scheduler.TICK_SECONDS = 0.01  # a child is mostly reaped within 50 ms
    slots.Slots.audit = audit_once
    internals.is_known = is_alive


@double
def trust_callbacks() -> None:
    """T7: the slot is given back by the completion callbacks only."""
    for adapter in (pools.ThreadPool, pools.GeventPool, pools.EventletPool):
        adapter.apply = Pool.apply


@double
def dispatch_while_stopping() -> None:
    """T9: held tasks are dispatched whatever the state of the pool."""
    internals.is_running = lambda pool: True


@double
def slots_by_task_id() -> None:
    """T10: a slot is known by its task's id, which a retry and a second copy share."""

    class ById(slots.Slots):
        def take(self, kind: Any, request: Any, *more: Any) -> slots.Slot:
            for slot in [slot for slot in self.taken if slot.request.id == request.id]:
                del self.taken[slot]
            return super().take(kind, request, *more)

    dispatcher.Slots = ById


@double
def one_lane_for_new_queues() -> None:
    """T13: a queue added at run time goes to the first channel, whatever its kind."""
    from celery_fair.worker.consumer import LaneConsumer

    LaneConsumer._part = lambda self, queue: next(iter(self.parts.values()))


@double
def two_lanes_a_queue() -> None:
    """T13: a queue that changes its kind is consumed by its new lane as well."""
    from tests.apps import trapped

    def move(consumer: Any, queue: str, kind: Any) -> None:
        consumer.controller.fair.fair.lanes[queue] = kind
        lanes = consumer.task_consumer
        with lanes._frozen():
            lanes._part(queue).add_queue(consumer.app.amqp.queues[queue])
        lanes.consume()

    trapped.move = move


@double
def wait_for_replies() -> None:
    """T14: ``basic.qos``, ``basic.cancel`` and ``basic.consume`` wait, and so deliver."""

    def set_prefetch(channel: Any, count: int, shared: bool) -> None:
        channel.basic_qos(0, count, shared)

    def pause_consumer(consumer: Any, queue: str) -> None:
        consumer.channel.basic_cancel(consumer._active_tags[queue])

    internals.set_prefetch = set_prefetch
    internals.pause_consumer = pause_consumer


@double
def give_back_to_any_queue() -> None:
    """T15: what is held for long is requeued, also to a queue that counts deliveries."""
    AmqpWindow.can_give_back = lambda self, message: True


@double
def hold_without_bound() -> None:
    """T11: ``hold_max_seconds`` counts, whatever the broker's patience."""
    holding.Holding.longest_seconds = property(lambda self: float("inf"))


@double
def never_to_a_quorum_queue() -> None:
    """T11: what costs a delivery does not go back, however long it was held."""
    giving_back._must_go_back = lambda window, before, held: window.can_give_back(
        internals.message_of(held.request)
    )


@double
def go_round() -> None:
    """E6: what is held goes back after a second wherever there is another worker."""
    holding.Holding.seconds = lambda self, others_free, fleet_reserve: 1.0


@double
def cancel_any_consumer() -> None:
    """T16: a queue that vanishes without its consumer is left without it."""
    amqp_windows.is_kept = lambda queue: False


@double
def declare_by_hand() -> None:
    """T17: our queues are declared as plain classic ones."""
    from kombu import Queue

    from celery_fair.routing import Lanes

    def add_to(self: Lanes, queues: Any) -> None:
        for names in self.queues.values():
            for name in names:
                queues.select_add(Queue(name))

    Lanes.add_to = add_to


@double
def install_late() -> None:
    """S1: the hooks are put in place when the step starts, after the strategies were made."""
    install, enforce, start = hooks.Hooks.install, hooks.Hooks.enforce, steps.FairStep.start
    late: list[hooks.Hooks] = []
    hooks.Hooks.install = lambda self: late.append(self)
    hooks.Hooks.enforce = lambda self: None

    def start_late(self: steps.FairStep, c: Any) -> None:
        while late:
            install(late[-1])
            enforce(late.pop())
        start(self, c)

    steps.FairStep.start = start_late


@double
def keep_other_gates() -> None:
    """S2: our gate comes on top of what Celery has put on the channel."""
    gate = internals.gate_redis_channel

    def stacked(channel: Any, room: Callable[[], int]) -> None:
        before = channel.qos.can_consume
        gate(channel, room)
        ours = channel.qos.can_consume
        channel.qos.can_consume = lambda: before() and ours()

    internals.gate_redis_channel = stacked


@double
def scheduled_take_credit() -> None:
    """S3: a task that waits for its ETA counts as one that waits for a slot."""
    lanes.Lane.room = lambda lane: lane.credit - len(lane) - lane.limited - lane.scheduled


@double
def never_count_down() -> None:
    """S3: what fires goes on counting as scheduled, as in a count that misses some ends."""
    hooks.Hooks._apply_eta_task = lambda self, apply, request: apply(request)
    never_recount()


@double
def never_recount() -> None:
    """S3: a lane counts what comes and what fires, and a revoked task until it fires."""
    scheduler.Scheduler._recount_scheduled = lambda self: None


@double
def limited_are_free() -> None:
    """S4: a task that waits for its rate limit takes no credit."""
    lanes.Lane.room = lambda lane: lane.credit - len(lane)


@double
def read_on_the_workers_connection() -> None:
    """S6: the sensor asks over the worker's own connection and waits for the answer."""

    class Blocking(Link):
        def __init__(self, c: Any) -> None:
            self.channel = c.connection.default_channel

        def ask(self, queues: Any, member: Any) -> Answer:
            return Answer({queue: self.channel._size(queue) for queue in queues}, {})

        def close(self) -> None:
            """It is not ours."""

    measuring.Measuring._make_link = lambda self: Blocking(self._c)


@double
def ask_the_settings() -> None:
    """S7: whether a lane may pull is looked up in ``app.conf``."""
    make = pulling.Puller._window

    def asking(self: pulling.Puller, lane: Lane, part: Any) -> windows.Window:
        window, qos, conf = make(self, lane, part), part.channel.qos, self._c.app.conf
        ours = qos.can_consume
        qos.can_consume = lambda: conf.worker_prefetch_multiplier >= 0 and ours()
        return window

    pulling.Puller._window = asking


@double
def call_the_loop_later() -> None:
    """S8: the loop is asked to call back, which does not cut its poll short."""
    waker.Waker.wake = lambda self: None


@double
def wake_nobody() -> None:
    """S18: a task that ends in a pool's thread gives its slot back, and that is all."""
    pools.ThreadPool.when_freed = lambda self, pump, wake: lambda: None


@double
def window_of_the_present_pool() -> None:
    """S9: lanes hold what the pool has slots for now, so that Celery sees no need to grow it."""
    follow = scheduler.Scheduler._follow_pool

    def follow_only(self: scheduler.Scheduler, now: float) -> None:
        follow(self, now)
        self.dispatcher.spare = 0

    scheduler.Scheduler._follow_pool = follow_only


@double
def trust_the_prefetch_count() -> None:
    """S10: a Redis channel is held back by kombu's own prefetch count."""
    internals.gate_redis_channel = lambda channel, room: None


@double
def prefetch_zero() -> None:
    """S10: a lane without credit asks for a prefetch count of zero."""
    AmqpWindow._pause = lambda self: internals.set_prefetch(self.consumer.channel, 0, shared=True)


@double
def whole_room_a_queue() -> None:
    """S11: each of a lane's consumers gets the whole of its room."""
    AmqpConsumerWindow._share = lambda self, count: max(count, 1)
    AmqpConsumerWindow._left = lambda self: min(tally.left for tally in self._tallies.values())


@double
def priorities_before_queues() -> None:
    """S13: a pop's keys in kombu's own order: by priority, and only then by queue."""
    pull = internals.pull_in_order

    def by_priority(channel: Any, queues: Callable[[], list[str]]) -> None:
        keys, pri = of_redis.redis_keys, channel.priority_steps
        pull(channel, lambda: [f"{queue}|{step}" for step in pri for queue in queues()])
        of_redis.redis_keys = lambda channel, queue, prefixed=True: (
            [channel._q_for_pri(queue.split("|")[0], int(queue.split("|")[1]))]
            if "|" in queue
            else keys(channel, queue, prefixed)
        )

    internals.pull_in_order = by_priority


@double
def interactive_always_first() -> None:
    """No trap, but a strict order: batch runs when nothing interactive waits, owed or not."""
    pick = Policy.pick

    def strict(self: Policy, interactive_held: int, *args: Any, **kwargs: Any) -> Any:
        self._share.owed_when = float("inf")
        return pick(self, interactive_held, *args, **kwargs)

    Policy.pick = strict


@double
def count_a_task_twice() -> None:
    """No trap, but a slot taken by what is handed over, and again by what a child accepts."""
    start = Policy.start

    def twice(self: Policy, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **kwargs)
        start(self, *args, **kwargs)

    Policy.start = twice


@double
def keep_what_was_caught() -> None:
    """No trap, but a worker that holds what it has received, whoever could run it."""
    pulling.Puller._must_give_back = lambda self, lane, window, message: False
    Dispatcher.give_back_overdue = lambda self, *args: None


@double
def leave_the_spent() -> None:
    """H3: a silent queue's part of the room is kept for it, whatever waits in the others."""
    AmqpConsumerWindow._serve_spent = lambda self, room: None


@double
def replace_by_pausing() -> None:
    """T16: a consumer's window is changed by cancelling it first, whatever its queue."""

    def replace(part: Any, queue: str) -> None:
        internals.pause_consumer(part, queue)
        internals.resume_consumer(part, queue)

    internals.replace_consumer = replace


@double
def cancel_under_way() -> None:
    """T15: a lane is shut at once, also where messages are on their way to its consumer."""
    AmqpConsumerWindow._may_end = lambda self, queue: True


@double
def declare_regardless() -> None:
    """E7: queues are declared as this app would, whoever was first."""
    consumer.adopt = hooks.adopt = lambda connection, queues: None


@double
def end_with_the_queue() -> None:
    """A queue that is gone when its consumer resumes is an error of the channel."""
    internals.reconnect_without_queue = lambda channel: None


@double
def leave_the_timer() -> None:
    """S12: a lost connection leaves its timer entry behind."""
    scheduler.Scheduler.stop = lambda self: None


@double
def believe_publishers_clocks() -> None:
    """S17, S21: how late a task is, is told from the publisher's clock."""
    import time

    start = Dispatcher._start

    def by_wall_clock(self: Dispatcher, lane: Lane, now: float) -> None:
        oldest = min(lane)
        if oldest.ready_at is not None:
            self.policy._gate.note_late(time.time() - oldest.ready_at, now)
        start(self, lane, now)

    Dispatcher._start = by_wall_clock


@double
def prefetch_per_consumer() -> None:
    """No trap, but RabbitMQ >= 4 as kombu treats it: prefetch belongs to each consumer."""
    from kombu.transport import pyamqp

    pyamqp.Transport.qos_semantics_matches_spec = lambda self, connection: True
