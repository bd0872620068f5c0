"""Fronts come first: in the order of a BRPOP, and in the windows of RabbitMQ's consumers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kombu import Queue
from kombu.utils.scheduling import round_robin_cycle
from redis.connection import Connection

from celery_fair.front import is_front
from celery_fair.worker import internals
from celery_fair.worker.amqp_windows import AmqpConsumerWindow
from celery_fair.worker.internals.of_redis import MOST_ORDERS
from tests.unit.worker.test_amqp_windows import Rig


class FakeRedis(Connection):
    """Packs as redis-py does, and notes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[list[str]] = []
        self.packed = 0

    def pack_command(self, *args):
        self.packed += 1
        return super().pack_command(*args)

    def send_packed_command(self, command, check_health=True):
        lines = b"".join(command).decode().split("\r\n")
        self.sent.append(lines[2::2])


class FakeChannel:
    """The part of kombu's Redis channel that sends a BRPOP."""

    priority_steps = (0, 3)
    global_keyprefix = ""
    brpop_timeout = 1
    _in_poll = None

    def __init__(self, *queues: str) -> None:
        self.active_queues = list(queues)
        self._queue_cycle = round_robin_cycle(list(queues))
        self.client = SimpleNamespace(
            connection=FakeRedis(),
            _prefix_args=lambda args: [args[0], *map("p:".__add__, map(str, args[1:-1])), args[-1]],
        )

    def _q_for_pri(self, queue, step):
        return f"{queue}\x06{step}" if step else queue

    def pull(self) -> list[str]:
        """The keys of the next BRPOP."""
        self._brpop_start()
        command, *keys, _ = self.client.connection.sent[-1]
        assert command == "BRPOP"
        return [key.replace("\x06", ":") for key in keys]


@pytest.fixture
def channel():
    channel = FakeChannel("celery", "celery.front", "other")
    internals.pull_first(channel, is_front)
    return channel


def test_all_keys_of_a_front_are_named_before_the_others(channel):
    assert channel.pull() == [
        "celery.front",
        "celery.front:3",
        "celery",
        "other",
        "celery:3",
        "other:3",
    ]


def test_the_others_keep_kombu_s_order(channel):
    channel.pull()
    channel._queue_cycle.rotate("celery")
    assert channel.pull()[2:4] == ["other", "celery"]


def test_the_poll_is_noted_as_kombu_notes_it(channel):
    channel.pull()
    assert channel._in_poll is channel.client.connection
    assert channel._brpop_sent_at > 0


def test_a_key_prefix_is_kept():
    channel = FakeChannel("celery", "celery.front")
    channel.global_keyprefix = "p:"
    internals.pull_first(channel, is_front)
    assert channel.pull()[:2] == ["p:celery.front", "p:celery.front:3"]


def test_a_command_is_packed_once_for_each_order(channel):
    for _ in range(10):
        channel.pull()
    assert channel.client.connection.packed == 1


def test_the_orders_kept_are_bounded(channel):
    for number in range(3 * MOST_ORDERS):
        channel._queue_cycle.update(["celery", f"other{number}"])
        assert channel.pull()[0] == "celery"
    internals.pull_first(channel, is_front)


def test_without_queues_nothing_is_sent():
    channel = FakeChannel()
    internals.pull_first(channel, is_front)
    channel._brpop_start()
    assert channel.client.connection.sent == []


# with shards: an order that changes


def test_a_command_is_put_together_as_redis_py_packs_it():
    known, other = (FakeChannel("celery.front", "b", "c") for _ in range(2))
    known.global_keyprefix = other.global_keyprefix = "p:"
    internals.pull_first(known, is_front)
    internals.pull_by_turns(other, is_front, lambda queues: queues)
    assert other.pull() == known.pull()
    assert other.client.connection.packed == 0


def test_the_others_come_as_they_are_put_in_order_and_fronts_first():
    channel, order = FakeChannel("b", "celery.front", "c"), ["c", "b"]
    internals.pull_by_turns(channel, is_front, lambda queues: sorted(queues, key=order.index))
    assert [key for key in channel.pull() if ":" not in key] == ["celery.front", "c", "b"]
    order.reverse()
    assert [key for key in channel.pull() if ":" not in key] == ["celery.front", "b", "c"]


# RabbitMQ's quorum queues: a window a consumer


@pytest.fixture
def rig():
    rig = Rig(AmqpConsumerWindow, Queue("q"), Queue("q.front"))
    rig.begin()
    return rig


def _count(rig, queue):
    return rig.window._tallies[rig.consumer._active_tags[queue]].count


def test_a_front_takes_no_part_of_its_queue_s_window(rig):
    rig.grant(8)
    assert (_count(rig, "q"), _count(rig, "q.front")) == (8, 1)


def test_a_front_that_has_sent_its_message_may_send_another(rig):
    rig.grant(8)
    rig.deliver("q.front")
    assert [command for command, *_ in rig.channel_commands_after_follow()] == [
        "cancel",
        "qos",
        "consume",
    ]
    assert (_count(rig, "q"), _count(rig, "q.front")) == (8, 1)


def test_a_shut_lane_takes_nothing_from_its_front_either(rig):
    rig.grant(4)
    assert [command for command, *_ in rig.grant(0)] == ["cancel", "cancel"]
    assert [sent for sent in rig.grant(4) if sent[0] == "qos"] == [
        ("qos", 4, False),
        ("qos", 1, False),
    ]


def test_a_worker_of_a_front_alone_has_a_window_for_it():
    rig = Rig(AmqpConsumerWindow, Queue("q.front"))
    rig.begin()
    rig.grant(8)
    assert _count(rig, "q.front") == 8
