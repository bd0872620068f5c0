"""RabbitMQ's windows: which commands a lane's room becomes."""

from __future__ import annotations

from time import monotonic
from types import SimpleNamespace

import pytest
from kombu import Queue

from celery_fair.policy.kinds import BATCH
from celery_fair.worker.amqp_windows import (
    MAX_PREFETCH,
    AmqpConsumerWindow,
    AmqpWindow,
    is_kept,
    is_quorum,
)
from celery_fair.worker.internals.of_amqp import STALE_TAGS
from celery_fair.worker.lanes import Lane
from tests.unit.worker.amqp_channel import FakeConsumer

SHARED = True


class Rig:
    """A lane with its window, told what Celery and the broker do."""

    def __init__(self, window_class: type[AmqpWindow], *queues: Queue) -> None:
        self.consumer = FakeConsumer(*(queues or (Queue("batch"),)))
        self.channel = self.consumer.channel
        self.lane = Lane(BATCH, 0.0, 1000)
        self.window = window_class(self.lane, self.consumer)
        self._tag = 0

    def begin(self) -> None:
        """Celery consumes, as at the start of a connection."""
        self.window.freeze()
        self.window.thaw()
        self.channel.take()

    def unacknowledged(self) -> int:
        """What the window counts as the broker does."""
        tallies = getattr(self.window, "_tallies", None)
        return sum(map(len, tallies.values())) if tallies else len(self.window._tally)

    def grant(self, credit: int) -> list[tuple]:
        """What is sent when the lane gets this credit."""
        self.lane.grant(credit, 0.0)
        self.window.follow()
        return self.channel.take()

    def deliver(self, queue: str | None = None, to: str | None = None) -> int:
        """A message comes to the consumer of the queue, or to an old tag, and is held."""
        self._tag += 1
        tags = self.consumer._active_tags
        info = {"consumer_tag": to or tags[queue or next(iter(tags))]}
        message = SimpleNamespace(
            delivery_tag=self._tag, delivery_info=info, headers={}, channel=self.consumer.channel
        )
        self.window.delivered(message)
        self.lane.hold(message, 0.0, None, 0.0)
        return self._tag

    def channel_commands_after_follow(self) -> list[tuple]:
        """What is sent when the window looks again, with the credit that it has."""
        self.channel.take()
        self.window.follow()
        return self.channel.take()

    def start(self, *, acks_late: bool = True) -> None:
        """The first message held is given to the pool."""
        message = self.lane.take(0.0).request
        task = SimpleNamespace(acks_late=acks_late)
        self.window.starting(SimpleNamespace(_message=message, task=task))


@pytest.fixture(params=[AmqpWindow, AmqpConsumerWindow])
def rig(request) -> Rig:
    rig = Rig(request.param)
    rig.begin()
    return rig


def test_before_celery_consumes_the_channel_is_not_unlimited():
    rig = Rig(AmqpWindow)
    rig.window.freeze()
    assert rig.channel.take() == [("qos", 1, SHARED)]


def test_nothing_is_sent_while_celery_waits_for_the_broker(rig):
    rig.window.freeze()
    rig.channel.take()
    assert rig.grant(0) == []
    assert rig.grant(5) == []


def test_zero_credit_cancels_the_consumer_since_a_prefetch_of_zero_is_unlimited(rig):
    rig.grant(4)
    (cancel,) = rig.grant(0)
    assert cancel[0] == "cancel"


def test_no_prefetch_count_is_ever_zero(rig):
    for credit in (0, 1, 0, 3, 0, 2):
        assert all(sent[1] > 0 for sent in rig.grant(credit) if sent[0] == "qos")


def test_a_shut_lane_stays_shut_without_further_commands(rig):
    rig.grant(0)
    assert rig.grant(0) == []


def test_credit_again_sets_the_window_before_it_consumes(rig):
    rig.grant(0)
    sent = rig.grant(3)
    assert [command for command, *_ in sent] == ["qos", "consume"]
    assert sent[0][1] == 3


def test_each_consumer_has_a_tag_of_its_own(rig):
    """A quorum queue goes on counting a cancelled consumer's deliveries under its tag."""
    tags = set(rig.consumer._active_tags.values())
    for _ in range(5):
        rig.grant(0)
        rig.grant(2)
        tags.add(rig.consumer._active_tags["batch"])
    assert len(tags) == 6


def test_what_is_under_way_to_a_cancelled_consumer_finds_its_callback(rig):
    old = rig.consumer._active_tags["batch"]
    rig.grant(0)
    rig.grant(2)
    assert old in rig.channel.callbacks


def test_callbacks_of_old_consumers_do_not_pile_up(rig):
    for _ in range(3 * STALE_TAGS):
        rig.grant(0)
        rig.grant(2)
    assert len(rig.channel.callbacks) <= STALE_TAGS + 2


def test_what_runs_unacknowledged_is_added_to_the_count_asked_for():
    rig = Rig(AmqpWindow)
    rig.begin()
    assert rig.grant(4) == [("qos", 4, SHARED)]
    for _ in range(4):
        rig.deliver()
        rig.start()
    assert rig.grant(1) == [("qos", 5, SHARED)]


def test_an_acknowledged_message_is_no_longer_counted():
    rig = Rig(AmqpWindow)
    rig.begin()
    rig.grant(4)
    for settle in (rig.channel.basic_ack, rig.channel.basic_reject):
        tag = rig.deliver()
        rig.start()
        settle(tag)
    rig.channel.take()
    assert rig.grant(1) == [("qos", 1, SHARED)]


def test_small_changes_of_the_room_cost_no_command():
    """Tiny tasks change it with each of them; half of the credit is tolerated."""
    rig = Rig(AmqpWindow)
    rig.begin()
    rig.grant(16)
    for _ in range(6):
        rig.deliver()
        assert rig.grant(16) == []


def test_a_full_lane_without_lookahead_is_shut_exactly():
    rig = Rig(AmqpWindow)
    rig.begin()
    rig.grant(1)
    rig.deliver()
    assert rig.grant(1) == []  # the broker's own count has stopped it
    assert rig.grant(0) == []
    rig.start(acks_late=False)  # its ack would let the next one through
    assert rig.grant(0) == [("cancel", "tag1")]


def test_a_steady_stream_of_early_acks_costs_no_command():
    """One is held, starts, is acknowledged, the next one comes: the broker's count fits it all."""
    rig = Rig(AmqpWindow)
    rig.begin()
    rig.grant(1)
    for _ in range(5):
        tag = rig.deliver()
        assert rig.grant(1) == []
        rig.start(acks_late=False)
        assert rig.grant(1) == []
        rig.channel.basic_ack(tag)
        assert [sent for sent in rig.grant(1) if sent[0] != "ack"] == []


def test_what_a_slow_child_has_not_accepted_is_counted_again_at_the_next_tick():
    rig = Rig(AmqpWindow)
    rig.begin()
    rig.grant(1)
    tag = rig.deliver()
    rig.start(acks_late=False)
    assert rig.grant(1) == []
    rig.window.tick()
    assert rig.grant(1) == [("qos", 2, SHARED)]
    rig.channel.basic_ack(tag)
    rig.channel.take()
    assert rig.grant(1) == [("qos", 1, SHARED)]


def test_the_count_is_clamped_to_what_amqp_can_say(rig):
    sent = rig.grant(MAX_PREFETCH + 1000)
    assert [command[1] for command in sent if command[0] == "qos"] == [MAX_PREFETCH]


def test_a_consumers_window_changes_by_consuming_again():
    rig = Rig(AmqpConsumerWindow)
    rig.begin()
    assert rig.grant(4) == [("cancel", "tag1"), ("qos", 4, False), ("consume", "tag2")]


def test_a_new_consumer_owes_nothing_for_the_messages_of_the_last():
    rig = Rig(AmqpConsumerWindow)
    rig.begin()
    rig.grant(2)
    old = rig.deliver()
    rig.start()
    rig.grant(0)
    assert ("qos", 2, False) in rig.grant(2)
    rig.channel.basic_ack(old)  # must not count as room under the new consumer
    rig.channel.take()
    rig.deliver()
    rig.deliver()
    rig.start()
    rig.start()
    # Two unacknowledged of two: without another consumer nothing more would come.
    assert [command for command, *_ in rig.grant(2)] == ["cancel", "qos", "consume"]


def test_several_queues_share_a_window_that_each_consumer_would_have():
    rig = Rig(AmqpConsumerWindow, Queue("one"), Queue("two"))
    rig.begin()
    assert [sent[1] for sent in rig.grant(8) if sent[0] == "qos"] == [4]


def test_a_queue_whose_consumer_is_spent_is_served_while_the_others_are_silent():
    """It may be the only one of the lane's queues that has messages."""
    rig = Rig(AmqpConsumerWindow, Queue("full"), Queue("empty"))
    rig.begin()
    for running in range(4):
        if running:  # late acks: what runs stays unacknowledged
            rig.deliver("full")
            rig.start()
            rig.lane.asked_at = 0.0  # long ago
        rig.grant(4 - running)
        tag = rig.consumer._active_tags["full"]
        assert rig.window._tallies[tag].left > 0, f"nothing more would come beside {running}"
    rig.deliver("full")
    rig.start()
    sent = [command for command, *_ in rig.grant(0)]
    assert sent.count("cancel") == 2
    assert "consume" not in sent


def test_a_queue_whose_consumer_is_spent_waits_for_what_the_others_may_be_sending():
    rig = Rig(AmqpConsumerWindow, Queue("full"), Queue("other"))
    rig.begin()
    rig.grant(2)
    rig.deliver("full")
    rig.start()
    rig.lane.asked_at = monotonic() + 60  # just now
    assert rig.grant(1) == []
    rig.deliver("other")
    rig.start()
    rig.lane.asked_at = monotonic() + 60
    assert [command for command, *_ in rig.grant(1)].count("consume") == 2


def test_what_comes_to_an_old_consumer_takes_nothing_from_the_new_one():
    rig = Rig(AmqpConsumerWindow)
    rig.begin()
    rig.grant(4)
    old = rig.consumer._active_tags["batch"]
    rig.grant(0)
    rig.grant(4)
    rig.deliver(to=old)
    assert rig.window._left() == 4


def test_a_consumer_that_can_not_be_replaced_costs_no_command_without_end():
    single = Queue("one", queue_arguments={"x-single-active-consumer": True})
    for queues in ([single], [single, Queue("two")]):
        rig = Rig(AmqpConsumerWindow, *queues)
        rig.begin()
        for credit in (4, 1):
            rig.grant(credit)
            rig.deliver("one")
            rig.grant(credit)
            assert rig.grant(credit) == []
            rig.start()
            rig.grant(credit)
            assert rig.grant(credit) == []


@pytest.mark.parametrize("queue", [Queue("kept", auto_delete=True), Queue("kept", expires=5.0)])
def test_a_consumer_s_window_changes_without_leaving_a_queue_that_would_vanish(queue):
    """Else it would go on with one: a late task at a time, whatever the number of slots."""
    rig = Rig(AmqpConsumerWindow, queue)
    rig.begin()
    assert rig.grant(4) == [("qos", 4, False), ("consume", "tag2"), ("cancel", "tag1")]
    assert rig.grant(0) == [("qos", 1, False), ("consume", "tag3"), ("cancel", "tag2")]
    assert rig.grant(0) == []
    assert rig.grant(4) == [("qos", 4, False), ("consume", "tag4"), ("cancel", "tag3")]


@pytest.mark.parametrize(
    "queue",
    [
        Queue("kept", auto_delete=True),
        Queue("kept", expires=5.0),
        Queue("kept", queue_arguments={"x-expires": 5000}),
        Queue("kept", queue_arguments={"x-single-active-consumer": True}),
    ],
    ids=["auto_delete", "expires", "x-expires", "single-active"],
)
def test_a_queue_that_would_vanish_keeps_its_consumer_and_a_window_of_one(queue):
    rig = Rig(AmqpWindow, queue, Queue("plain"))
    rig.begin()
    rig.grant(4)
    sent = rig.grant(0)
    assert ("cancel", "tag2") in sent
    assert ("cancel", "tag1") not in sent
    assert ("qos", 1, SHARED) in sent
    assert is_kept(queue)


def test_a_lost_connection_is_left_to_the_loop_to_find(rig):
    rig.grant(2)
    rig.channel.broken = True
    assert rig.grant(0) == []
    assert rig.grant(4) == []


def test_nothing_is_given_back_to_a_quorum_queue_which_counts_deliveries():
    quorum = Queue("q", queue_arguments={"x-queue-type": "quorum"})
    assert is_quorum(quorum)
    message = SimpleNamespace(headers={})
    assert not Rig(AmqpWindow, Queue("plain"), quorum).window.can_give_back(message)
    assert Rig(AmqpWindow, Queue("plain")).window.can_give_back(message)


def test_a_message_whose_deliveries_are_counted_is_not_given_back_whatever_was_declared():
    counted = SimpleNamespace(headers={"x-delivery-count": 1})
    assert not Rig(AmqpWindow, Queue("plain")).window.can_give_back(counted)


def test_a_kept_queue_keeps_its_window_of_one_as_late_acks_come_in():
    rig = Rig(AmqpWindow, Queue("kept", auto_delete=True))
    rig.begin()
    rig.grant(4)
    tags = [rig.deliver() for _ in range(4)]
    for _ in tags:
        rig.start()
    rig.grant(0)
    for tag in tags:
        rig.channel.basic_ack(tag)
    assert rig.channel_commands_after_follow()[-1] == ("qos", 1, SHARED)


def test_a_quorum_queue_s_consumer_is_cancelled_only_when_nothing_is_on_its_way():
    """What the queue takes back then, it counts as a delivery, and drops a message after some."""
    rig = Rig(AmqpConsumerWindow, Queue("q", queue_arguments={"x-queue-type": "quorum"}))
    rig.begin()
    rig.lane.asked_at = monotonic() + 60  # just now
    assert rig.grant(4) == []  # one may be on its way
    rig.deliver()
    rig.start()
    assert ("cancel", "tag1") in rig.grant(3)
    rig.lane.asked_at = monotonic() + 60
    assert rig.grant(0) == []  # and now three more
    for _ in range(3):
        rig.deliver()
    assert rig.grant(0) == [("cancel", "tag2")]


def test_a_quorum_queue_s_consumer_is_cancelled_when_it_has_been_silent_for_a_while():
    rig = Rig(AmqpConsumerWindow, Queue("q", queue_arguments={"x-queue-type": "quorum"}))
    rig.begin()
    rig.lane.asked_at = 0.0
    assert rig.grant(0) == [("cancel", "tag1")]


def test_a_quorum_queue_s_spent_consumer_is_cancelled_before_the_ack_that_would_let_more_come():
    rig = Rig(AmqpConsumerWindow, Queue("q", queue_arguments={"x-queue-type": "quorum"}))
    rig.begin()
    rig.grant(1)
    rig.deliver()
    rig.start(acks_late=False)
    rig.lane.asked_at = monotonic() + 60
    assert rig.grant(0) == [("cancel", "tag1")]


def test_a_message_of_another_channel_is_none_of_this_window_s(rig):
    """Tags are a channel's own: in the other mode messages come by another."""
    rig.grant(2)
    rig.deliver()
    other = SimpleNamespace(delivery_tag=1, channel=object())
    early = SimpleNamespace(acks_late=False)
    rig.window.starting(SimpleNamespace(_message=other, task=early))
    assert rig.unacknowledged() == 1


def test_a_window_that_has_rested_begins_anew(rig):
    rig.grant(1)
    rig.grant(0)
    assert rig.window._paused
    rig.window.freeze()
    rig.window.rest()
    rig.channel.take()
    rig.window.thaw()
    assert not [sent for sent in rig.channel.take() if sent[0] == "consume"]
