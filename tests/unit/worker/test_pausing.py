"""What is paused in a worker: its lanes, its queues, and the time that doesn't count as waiting."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from celery_fair.policy import Policy, PolicySettings
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS
from celery_fair.steering import Pause
from celery_fair.worker import pausing as module
from celery_fair.worker.deadlines import Deadline, Deadlines
from celery_fair.worker.dispatcher import Dispatcher
from celery_fair.worker.lanes import Lane
from celery_fair.worker.pausing import Pausing
from celery_fair.worker.steering.queues import QueuePauses
from celery_fair.worker.windows import Window

NOW = 1000.0
BOTH = frozenset(KINDS)
NONE = frozenset()


class Request:
    def __init__(self, queue):
        self.queue, self.delivery_info = queue, {"routing_key": queue}


@pytest.fixture
def lanes():
    lanes = {kind: Lane(kind, now=0.0, scheduled_limit=100) for kind in KINDS}
    for kind, queues in ((INTERACTIVE, ["celery", "chat"]), (BATCH, ["b", "reports", "b"])):
        for number, queue in enumerate(queues):
            deadline = Deadline(NOW + 5, 5.0)
            lanes[kind].hold(Request(queue), number, number, NOW, deadline)
    return lanes


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=NOW)
    monkeypatch.setattr(module, "monotonic", lambda: clock.now)
    return clock


def held(lane):
    return [one.request.queue for one in sorted(lane.held)]


def test_a_paused_kinds_lane_keeps_what_it_holds_and_lets_no_time_run_out(lanes, clock):
    Pausing().change(lanes, frozenset([BATCH]), NONE)
    assert lanes[BATCH].paused
    assert not lanes[INTERACTIVE].paused
    assert len(lanes[BATCH]) == 3
    assert lanes[BATCH].take_overdue(NOW + 60) == []
    assert len(lanes[INTERACTIVE].take_overdue(NOW + 60)) == 2


def test_afterwards_there_is_as_much_time_left_as_there_was(lanes, clock):
    pausing = Pausing()
    pausing.change(lanes, frozenset([BATCH]), NONE)
    clock.now += 100
    pausing.change(lanes, NONE, NONE)
    assert {one.deadline.at for one in lanes[BATCH].held} == {NOW + 105}
    assert {one.deadline.at for one in lanes[INTERACTIVE].held} == {NOW + 5}


def test_what_came_in_the_pause_has_waited_for_its_end_since_then_only(lanes, clock):
    pausing = Pausing()
    pausing.change(lanes, frozenset([BATCH]), NONE)
    late = Request("b")
    lanes[BATCH].hold(late, 9.0, 9.0, NOW + 60, Deadline(NOW + 65, 5.0))
    clock.now += 100
    pausing.change(lanes, NONE, NONE)
    (found,) = (one for one in lanes[BATCH].held if one.request is late)
    assert found.deadline.at == NOW + 105


def test_messages_of_a_paused_queue_are_put_aside_and_take_no_credit(lanes, clock):
    lanes[BATCH].grant(3, NOW)
    pausing = Pausing()
    pausing.change(lanes, NONE, frozenset(["b", "b.front"]))
    assert held(lanes[BATCH]) == ["reports"]
    assert [one.request.queue for one in lanes[BATCH].aside] == ["b", "b"]
    assert lanes[BATCH].room() == 2
    lanes[BATCH].hold(Request("b.front"), 7.0, 7.0, NOW)
    pausing.put_aside(lanes[BATCH])
    assert len(lanes[BATCH].aside) == 3
    clock.now += 30
    pausing.change(lanes, NONE, NONE)
    assert held(lanes[BATCH]) == ["b", "reports", "b", "b.front"], "in their order again"
    assert lanes[BATCH].aside == []


def test_what_is_aside_can_go_back_and_ends_with_its_connection(lanes, clock):
    Pausing().change(lanes, NONE, frozenset(["b"]))
    lane = lanes[BATCH]
    assert len(lane.take_aside_before(NOW + 1, lambda one: one.first_published == 0)) == 1
    assert len(lane.aside) == 1
    lane.close()
    assert lane.aside == []


def test_the_lanes_of_the_next_connection_are_told(lanes, clock):
    pausing = Pausing()
    pausing.change({}, BOTH, NONE)
    pausing.mark(lanes)
    assert all(lane.paused for lane in lanes.values())


# Messages that come after a pause


def waited(pauses, seconds, queue="b", kind=BATCH):
    deadlines = Deadlines({BATCH: 10.0, INTERACTIVE: 10.0})
    deadlines.pauses = pauses
    message = SimpleNamespace(delivery_info={"routing_key": queue})
    deadline = deadlines.of(kind, "a", "an-id", message, None, seconds, NOW)
    return round(10.0 - (deadline.at - NOW), 1)


def test_time_in_a_pause_does_not_count_as_waiting():
    now = time.time()
    assert waited([Pause(BATCH, None, "ann", now - 50, now - 10)], 60) == 20.0
    assert waited([Pause(BATCH, None, "ann", now - 50)], 60) == 10.0, "it lasts"
    assert waited([Pause(BATCH, None, "ann", now - 50, now - 40)], 5) == 5.0, "before its time"


def test_what_two_pauses_have_in_common_is_no_wait_once():
    now = time.time()
    kind, queue = Pause(BATCH, None, "ann", now - 50, now - 20), Pause(BATCH, "b", "ann", now - 30)
    assert waited([kind], 60) == 30.0
    assert waited([kind, queue], 60) == 10.0
    assert waited([kind._replace(began=now - 58, ended=now - 55), kind], 60) == 27.0


def test_nor_does_it_in_the_pause_of_its_queue_and_of_no_other():
    now = time.time()
    assert waited([Pause(BATCH, "b", "ann", now - 50)], 60) == 10.0
    assert waited([Pause(BATCH, "reports", "ann", now - 50)], 60) == 60.0
    assert waited([Pause(INTERACTIVE, None, "ann", now - 50)], 60) == 60.0


def test_another_timeout_holds_from_the_next_message_on():
    deadlines = Deadlines({BATCH: None, INTERACTIVE: None})
    deadlines.learn({"hasty": SimpleNamespace(fair_timeout_seconds=2, acks_late=False)})
    deadlines.reconfigure({BATCH: 7.0, INTERACTIVE: None})
    message = SimpleNamespace(delivery_info={})
    assert deadlines.are_declared
    assert deadlines.of(BATCH, "a", "id", message, None, 0.0, NOW).seconds == 7.0
    assert deadlines.of(BATCH, "hasty", "id", message, None, 0.0, NOW).seconds == 2.0
    assert deadlines.shortest(INTERACTIVE, NOW) == 2.0
    assert deadlines.shortest(BATCH, NOW) == 2.0


# Queues that are paused


class Consumer:
    """A worker's consumer, as far as queues come and go."""

    def __init__(self, *queues):
        names = {name: SimpleNamespace(name=name, routing_key=f"{name}-key") for name in queues}
        select_add = lambda queues, queue: names.update({queue.name: queue})  # noqa: E731
        attributes = {"consume_from": names, "select_add": select_add}
        amqp = SimpleNamespace(queues=type("Queues", (dict,), attributes)(names))
        self.app = SimpleNamespace(amqp=amqp)
        self.task_consumer = object()
        self.soon = []
        self.calls = []

    def call_soon(self, callback):
        self.soon.append(callback)

    def run(self):
        while self.soon:
            self.soon.pop(0)()

    def add_task_queue(self, queue, *args, **options):
        self.calls.append(("add", queue, *args))
        self.app.amqp.queues.consume_from[queue] = object()

    def cancel_task_queue(self, queue):
        self.calls.append(("cancel", queue))
        self.app.amqp.queues.consume_from.pop(queue, None)


def test_a_paused_queue_is_cancelled_with_its_front_and_consumed_again_afterwards():
    c = Consumer("celery", "b", "b.front")
    queues = QueuePauses(c)
    queues.pause(["b"])
    assert c.calls == [], "not within the command, which the loop is reading"
    c.run()
    assert c.calls == [("cancel", "b"), ("cancel", "b.front")]
    assert queues.stopped == ["b"]
    assert queues.known() == ["b", "celery"]
    assert queues.keys() == {"b", "b.front", "b-key", "b.front-key"}
    queues.pause([])
    c.run()
    assert c.calls[-1] == ("add", "b")
    assert queues.stopped == []


def test_a_paused_queue_takes_its_shards_with_it():
    c = Consumer("celery", "b", "b.shard-00", "b.shard-01")
    queues = QueuePauses(c)
    queues.pause(["b"])
    c.run()
    assert queues.known() == ["b", "celery"]
    assert {"b", "b.shard-00", "b.shard-01"} <= queues.keys()


def test_the_key_by_which_another_queue_is_reached_is_not_the_paused_ones():
    c = Consumer("celery", "reports")
    for queue in c.app.amqp.queues.values():
        queue.routing_key = "celery"  # as Celery has it for queues declared without a key
    queues = QueuePauses(c)
    queues.pause(["reports"])
    c.run()
    assert queues.keys() == {"reports", "reports.front"}


def test_what_others_ask_of_a_paused_queue_is_done_once_it_is_resumed():
    c = Consumer("celery", "b")
    queues = QueuePauses(c)
    queues.pause(["b", "new"])
    c.run()
    c.add_task_queue("new", "exchange")
    c.cancel_task_queue("b")
    assert "new" not in c.app.amqp.queues.consume_from
    queues.pause([])
    c.run()
    assert ("add", "new", "exchange") in c.calls
    assert ("add", "b") not in c.calls


def test_a_lost_connection_is_followed_up_on_the_next():
    c = Consumer("celery", "b")
    queues = QueuePauses(c)
    c.task_consumer, consumer = None, c.task_consumer
    queues.pause(["b"])
    c.run()
    assert c.calls == []
    c.task_consumer = consumer
    queues.connect()
    assert c.calls == [("cancel", "b")]
    queues.pause([])
    c.soon.clear()  # as when the connection is lost before the loop comes to it
    queues.connect()
    assert c.calls == [("cancel", "b")], "nobody takes messages before the loop does"
    c.run()
    assert c.calls == [("cancel", "b"), ("add", "b")]


def test_a_connection_that_is_lost_as_a_queue_is_resumed_keeps_it_from_no_later_one():
    """Celery before 5.7 puts it into its selection after all else, or not at all."""
    c = Consumer("celery", "b")

    def lost(queue):
        raise ConnectionResetError

    c.add_task_queue = lost
    queues = QueuePauses(c)
    queues.pause(["b"])
    c.run()
    queues.pause([])
    with pytest.raises(ConnectionResetError):
        c.run()
    assert set(c.app.amqp.queues.consume_from) == {"celery", "b"}
    assert queues.stopped == []


# What a lane is granted


class Full:
    """A pool that takes no work; nothing is to be started here."""

    one_task_a_turn = False

    def is_running(self):
        return False

    def when_freed(self, pump, wake):
        return pump


@pytest.fixture
def dispatcher():
    policy = Policy(PolicySettings(reserve=1), slots=2, now=0.0)
    made = Dispatcher(policy, Full(), None, lambda *_: None, lambda queue: BATCH)
    lanes = {kind: Lane(kind, now=0.0, scheduled_limit=100) for kind in KINDS}
    made.connect(lanes, {kind: Window(lane, None) for kind, lane in lanes.items()})
    return made


def pause(dispatcher, *kinds):
    dispatcher.pausing.change(dispatcher.lanes, frozenset(kinds), NONE)
    dispatcher.policy.pause(kinds, 1.0)
    dispatcher.grant()


def test_slots_that_autoscale_may_add_give_a_paused_kind_no_credit(dispatcher):
    dispatcher.spare = 6
    dispatcher.grant()
    assert all(lane.credit > 0 for lane in dispatcher.lanes.values())
    pause(dispatcher, BATCH)
    assert dispatcher.lanes[BATCH].credit == 0
    assert dispatcher.lanes[INTERACTIVE].credit > 0
    pause(dispatcher)
    assert dispatcher.lanes[BATCH].credit > 0


def test_nobody_looks_for_what_is_overdue_in_a_paused_lane(dispatcher):
    dispatcher.probing.deadlines = Deadlines({BATCH: 1.0, INTERACTIVE: 1.0})
    for lane in dispatcher.lanes.values():
        lane.doubtful = True
    pause(dispatcher, BATCH)
    dispatcher.probing.look(dispatcher.lanes, 1000.0)
    assert dispatcher.probing.kinds == {INTERACTIVE}
