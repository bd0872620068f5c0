"""Each private name of Celery, kombu, redis-py and py-amqp that ``internals`` leans on.

A test fails when its name moves, or no longer does what we read in it; the fix belongs in
``celery_fair/worker/internals``.
"""

from __future__ import annotations

import inspect
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import amqp
import celery
import pytest
from amqp import spec
from celery import Celery
from celery.app.task import Context
from celery.concurrency.base import BasePool
from celery.concurrency.eventlet import TaskPool as EventletPool
from celery.concurrency.gevent import TaskPool as GeventPool
from celery.concurrency.gevent import Timer as GeventTimer
from celery.utils.timer2 import Timer as ThreadTimer
from celery.worker import state, strategy
from celery.worker.consumer import Consumer
from celery.worker.consumer.control import Control
from celery.worker.consumer.tasks import Tasks
from celery.worker.pidbox import Pidbox
from celery.worker.request import Request
from celery.worker.worker import WorkController
from kombu import Connection, Queue
from kombu.asynchronous import Hub
from kombu.asynchronous.timer import Timer
from kombu.pidbox import Mailbox
from kombu.pidbox import Node as PidboxNode
from kombu.transport.redis import Channel as RedisChannel
from kombu.transport.redis import MultiChannelPoller
from kombu.transport.redis import QoS as RedisQoS
from kombu.transport.virtual import QoS

from celery_fair.worker import internals
from celery_fair.worker.waker import Waker
from tests.brokers.waiting import wait_until

CELERY = tuple(celery.VERSION[:2])


def source(function) -> str:
    return inspect.getsource(function)


@pytest.fixture
def channel(broker) -> Iterator:
    """A channel to the test's broker."""
    with Connection(broker.url) as connection:
        yield connection.channel()


def put(channel, queue, *bodies):
    with channel.connection.client.Producer(channel=channel) as producer:
        for body in bodies:
            producer.publish(body, routing_key=queue, declare=[Queue(queue)])


# celery.worker


def test_the_pool_is_given_a_bound_method_of_the_request():
    assert "callback=self.on_success" in source(Request.execute_using_pool)
    assert "_message" in Request.__slots__ or "self._message" in source(Request.__init__)


def test_a_connection_has_a_default_channel_that_can_be_another(channel):
    connection = channel.connection.client
    first = connection.default_channel
    assert internals.renew_default_channel(connection) is connection.default_channel
    assert connection.default_channel is not first


def test_celerys_own_step_makes_its_consumer_and_its_window():
    made = source(Tasks.start)
    assert "c.task_consumer = c.app.amqp.TaskConsumer(" in made
    assert "c.qos = QoS(" in made
    assert "c.connection.default_channel.basic_qos(" in made
    assert ".consume()" not in made


def test_a_rate_limit_keeps_its_requests_in_a_bucket():
    bucket = Consumer.bucket_for_task(None, Mock(rate_limit="1/m"))
    bucket.add(("a request", 1))
    buckets = Mock(task_buckets={"limited": bucket, "unlimited": None})
    assert internals.limited_requests(buckets) == ["a request"]
    assert "bucket.add((request, tokens))" in source(Consumer._limit_task)


def test_a_revoked_request_says_so():
    assert "_already_revoked" in source(Request.revoked)
    assert "except TaskRevokedError" in source(WorkController._process_task)


def test_what_a_request_tells_its_child_is_in_its_delivery_info_and_in_no_retry():
    app = Celery("told", set_as_current=False)

    @app.task(name="told")
    def told():
        pass

    app.finalize()
    headers, *rest = app.amqp.as_task_v2("an-id", "told", (), {})[:4]
    message = SimpleNamespace(
        headers=headers, body=rest[1], payload=rest[1], content_type=None, content_encoding=None,
        delivery_info={"routing_key": "celery"}, properties={},
    )  # fmt: skip
    request = Request(message, app=app)
    internals.tell_child(request, fair_lease="w1/1")
    context = Context(request.request_dict)
    assert context.delivery_info["fair_lease"] == "w1/1"
    assert "w1/1" not in repr(context.as_execution_options())


def test_preforks_semaphore_looks_up_what_it_calls_later():
    called = source(WorkController._process_task_sem)
    assert "self._quick_acquire(self._process_task, req)" in called


def test_eventlets_pool_keeps_the_green_threads_that_have_not_ended():
    assert "self._add_to_pool_map(id(greenlet), greenlet)" in source(EventletPool.on_apply)
    assert "self._pool_map[pid] = greenlet" in source(EventletPool._add_to_pool_map)


def test_celery_keeps_its_requests_in_sets():
    for books in (state.active_requests, state.reserved_requests, state.revoked):
        assert len(books) == 0
    assert callable(state.task_ready)


@pytest.mark.parametrize("make_timer", [Timer, ThreadTimer, GeventTimer])
def test_requests_that_wait_for_their_time_are_known(make_timer):
    timer, request = make_timer(), object.__new__(Request)
    timer.call_after(60, print, ("no request",))
    entry = timer.call_after(60, print, (request, "bucket", 1))
    assert internals.scheduled_requests(timer) == [request]
    internals.end_timer(entry)
    assert internals.scheduled_requests(timer) == []
    timer.clear()
    timer.stop()


def test_a_strategy_gives_the_request_to_its_timer():
    told = source(strategy.default)
    assert "eta, apply_eta_task, (req,)" in told
    assert "eta, limit_post_eta, (req, bucket, 1)" in told


def test_celerys_books_are_read_while_another_thread_writes_in_them():
    """What grows meanwhile can't be gone through: that raised in one of 200 ticks."""
    requests = [object.__new__(Request) for _ in range(5000)]
    for number, request in enumerate(requests):
        request.id = number
    ended = threading.Event()

    def write():
        while not ended.is_set():
            for request in requests:
                state.task_reserved(request)
            for request in requests:
                state.task_ready(request)

    writer = threading.Thread(target=write)
    writer.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(200):
            internals.known_requests()
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        writer.join()


@pytest.mark.parametrize("shared", [True, False])
def test_whose_a_prefetch_count_is_celerys_own_step_knows(shared):
    consumer = Mock(spec=["app", "connection", "steps"])
    consumer.app.conf.worker_detect_quorum_queues = False
    consumer.connection.qos_semantics_matches_spec = not shared
    consumer.steps = [Tasks(consumer)]
    assert internals.is_qos_global(consumer) is shared
    if CELERY >= (5, 7):
        assert "c.qos_global = qos_global" in source(Tasks.start)


def test_a_limit_of_scheduled_tasks_is_a_setting_since_5_6():
    app = Celery(set_as_current=False)
    assert internals.eta_task_limit(app) is None
    app.conf.worker_eta_task_limit = 5
    assert internals.eta_task_limit(app) == 5


def test_a_pool_tells_whether_it_runs(monkeypatch):
    pool = BasePool(limit=1)
    pool.start()
    assert internals.is_running(pool)
    monkeypatch.setattr(state, "should_stop", 0)
    assert not internals.is_running(pool)
    monkeypatch.setattr(state, "should_stop", None)
    pool.close()
    assert not internals.is_running(pool)


def test_gevents_pool_has_a_size_while_nothing_runs():
    pool = GeventPool(limit=3)
    pool.on_start()
    assert internals.gevent_size(pool) == 3
    pool.grow(2)
    assert internals.gevent_size(pool) == 5
    pool.shrink(1)
    assert internals.gevent_size(pool) == 4


@pytest.mark.parametrize(
    "name",
    ["_limit_task", "_limit_post_eta", "apply_eta_task", "on_close",
     "on_connection_error_after_connected"],
)  # fmt: skip
def test_the_consumer_has_the_methods_that_we_wrap(name):
    assert callable(getattr(Consumer, name))


def test_strategies_are_made_after_every_step_is():
    assert "self.blueprint.apply(self" in source(Consumer.__init__)
    assert "c.update_strategies()" in source(Tasks.start)


def test_the_prefetch_count_is_left_alone_under_the_flag():
    restore = Consumer._restore_prefetch_count_after_connection_restart
    assert "self._maximum_prefetch_restored" in source(restore)


def test_a_repeated_timer_of_an_event_loop_ends():
    timer = Timer()
    calls = []
    internals.end_timer(timer.call_repeatedly(0.0, calls.append, (1,)))
    for entry in list(timer.queue):
        assert entry.entry.canceled


def test_a_green_timer_returns_a_greenlet_with_the_entry():
    assert "g.entry = entry" in source(GeventTimer._enter)


# kombu: virtual transports


@pytest.mark.brokers("memory", "filesystem", "redis")
def test_a_virtual_channel_asks_its_qos_whether_it_may_consume(channel):
    assert internals.is_virtual(channel)
    internals.gate_channel(channel, lambda: 0)
    assert not channel.qos.can_consume()
    internals.gate_channel(channel, lambda: 2)
    assert channel.qos.can_consume()
    assert channel.qos.can_consume_max_estimate() == 2


@pytest.mark.brokers("rabbitmq")
def test_an_amqp_channel_is_not_virtual(channel):
    assert not internals.is_virtual(channel)


@pytest.mark.brokers("memory")
def test_a_polling_transport_tells_its_interval(channel):
    assert internals.polling_interval(channel.connection.client) > 0


@pytest.mark.brokers("redis", "rabbitmq")
def test_a_command_sent_without_waiting_reaches_a_worker_s_mailbox(broker):
    app = Celery(broker=broker.url, set_as_current=False)
    heard = []
    with Connection(broker.url) as theirs, Connection(broker.url) as ours:
        node = app.control.mailbox(theirs).Node("w1@host", channel=theirs.channel())
        node.handlers["fair_orders"] = lambda state, **arguments: heard.append(arguments)
        node.dispatch = partial(_with_destination, node.dispatch, heard)
        with node.listen():
            with suppress(TimeoutError):  # Redis subscribes at the first look
                theirs.drain_events(timeout=0.2)
            for destination in (None, ["w1@host"], ["w2@host"]):
                internals.send_command(
                    app.control.mailbox, ours.channel(), "fair_orders", {"ask": 1}, destination
                )
            while len(heard) < 4:
                theirs.drain_events(timeout=5)
    assert heard == [None, {"ask": 1}, ["w1@host"], {"ask": 1}]
    app.close()


def test_a_mailbox_asks_its_pool_for_a_producer_and_may_be_given_another_pool():
    assert "self.producer_pool.acquire()" in source(Mailbox.producer_or_acquire)
    app = Celery(broker="memory://", set_as_current=False)
    mailbox = app.control.mailbox("a connection")
    mailbox.producer_pool = "another pool"
    assert mailbox.connection == "a connection"
    assert app.control.mailbox.producer_pool != "another pool"
    assert "self.mailbox(conn)._broadcast(" in source(app.control.broadcast)
    app.close()


def _with_destination(dispatch, heard, **body):
    heard.append(body["destination"])
    return dispatch(**body)


def test_the_step_of_remote_control_has_a_mailbox():
    assert "self.box = " in source(Control.__init__)
    assert "self.node = " in source(Pidbox.__init__)
    assert "self.dispatch(**body)" in source(PidboxNode.handle_message)


@pytest.mark.brokers("redis", "rabbitmq", "memory")
def test_a_message_given_back_is_the_next_one(channel):
    put(channel, "q", "first", "second")
    message = Queue("q")(channel).get()
    assert message.payload == "first"
    internals.return_to_broker(message)
    again = Queue("q")(channel).get()
    assert again.payload in ("first", "second")
    if channel.connection.client.transport.driver_type != "memory":
        assert again.payload == "first"


def test_quick_ack_forgets_a_message():
    assert "_quick_ack" in source(QoS.__init__)
    assert callable(RedisQoS.restore_by_tag)


# kombu: Redis


def test_redis_keeps_the_connection_of_a_pending_pop(channel):
    channel.basic_consume("q", False, lambda message: None, "tag")
    assert not internals.is_pulling(channel)
    channel.connection.cycle.on_poll_start()
    assert internals.is_pulling(channel)
    internals.gate_redis_channel(channel, lambda: 0)
    assert channel.qos.can_consume()  # as long as the reply is due


def test_redis_sends_our_pop_in_our_order(channel):
    put(channel, "one", 1)
    put(channel, "two", 2)
    got = []
    for queue in ("one", "two"):
        channel.basic_consume(queue, True, lambda message: got.append(message.decode()), queue)
    internals.pull_in_order(channel, lambda: ["two", "one"])
    client = channel.connection.client
    client.drain_events(timeout=5)
    client.drain_events(timeout=5)
    assert got == [2, 1]


def test_redis_queues_are_a_list_a_priority_step(channel):
    put(channel, "q", 1)
    keys = internals.redis_keys(channel, "q")
    assert len(keys) == len(channel.priority_steps)
    assert channel.client.llen(keys[0]) == 1


def test_two_redis_channels_share_a_pool(channel):
    other = channel.connection.client.channel()
    internals.share_connections(other, channel)
    assert other.pool is channel.pool


def test_a_pending_pop_is_read_before_its_channel_is_closed(channel):
    assert "self._brpop_read()" in source(RedisChannel.close)
    channel.basic_consume("q", False, lambda message: None, "tag")
    channel.connection.cycle.on_poll_start()
    channel.client.connection._sock.close()
    internals.settle_redis_channel(channel)
    assert not internals.is_pulling(channel)


def test_one_more_descriptor_interrupts_the_poller_of_redis(channel):
    assert isinstance(channel.connection.cycle, MultiChannelPoller)
    channel.basic_consume("q", False, lambda message: None, "tag")
    waker = Waker(lambda: None)
    client = channel.connection.client
    internals.wake_redis_poller(client, waker.fileno(), waker.drain)
    timer = threading.Timer(0.1, waker.wake)
    timer.start()
    client.drain_events(timeout=5)  # else a TimeoutError
    timer.join()
    waker.close()


def test_a_redis_connection_sends_now_and_reads_later(channel):
    connection = internals.redis_link_connection(channel)
    channel.client.set("text", "x")
    internals.redis_send(connection, [("LLEN", "none"), ("LLEN", "text"), ("LLEN", "none")])
    assert connection._sock.fileno() > 0
    zero, error, last = internals.redis_receive(connection, 3)
    assert (zero, last) == (0, 0)
    assert "WRONGTYPE" in str(error)
    connection.disconnect()
    assert issubclass(ConnectionError, internals.connection_error_types())


# py-amqp


@pytest.mark.brokers("rabbitmq")
def test_an_answer_that_nobody_waits_for_is_dropped(channel):
    internals.set_prefetch(channel, 1, shared=True)
    Queue("q")(channel).queue_declare()  # reads what has come before
    assert channel.is_open


@pytest.mark.brokers("rabbitmq")
def test_a_consumer_pauses_and_resumes_by_its_queue(channel):
    got = []
    consumer = channel.connection.client.Consumer(
        [Queue("q")], channel=channel, on_message=lambda message: got.append(message.payload)
    )
    consumer.consume()
    assert internals.active_queues(consumer) == ["q"]
    internals.pause_consumer(consumer, "q")
    put(channel, "q", 1)
    count = wait_until(lambda: Queue("q")(channel).queue_declare(passive=True).message_count)
    assert (count, got) == (1, [])
    internals.resume_consumer(consumer, "q")
    wait_until(lambda: _drained(channel) or got, "the message to come")
    assert internals.active_queues(consumer) == ["q"]


@pytest.mark.brokers("rabbitmq")
def test_every_settled_message_is_counted(channel):
    put(channel, "q", 1, 2)
    settled = []
    internals.count_settled(channel, settled.append)
    queue = Queue("q")(channel)
    queue.get().ack()
    queue.get().reject()
    assert len(settled) == 2


@pytest.mark.brokers("rabbitmq")
def test_a_queue_s_size_comes_without_waiting(channel):
    put(channel, "q", 1, 2, 3)
    sizes = {}
    internals.on_queue_size(channel, lambda queue, *counts: sizes.update({queue: counts}))

    def asked():
        internals.ask_queue_size(channel, "q")
        _drained(channel)
        return sizes == {"q": (3, 0)}

    wait_until(asked, lambda: f"3 messages and no consumer, not {sizes}")
    assert spec.Queue.DeclareOk in amqp.Channel._METHODS


def _drained(channel):
    try:
        channel.connection.client.drain_events(timeout=0.1)
    except TimeoutError:
        return


# the event loop


def test_a_hub_drops_its_readers_when_it_is_reset():
    hub = Hub()
    reader, writer = socket.socketpair()
    hub.add_reader(reader, lambda: None)
    assert reader.fileno() in hub.readers
    hub.reset()
    assert reader.fileno() not in hub.readers
    hub.close()
    reader.close()
    writer.close()


def test_an_app_lets_its_consumer_be_taken_from_amqp():
    assert inspect.isclass(Celery(set_as_current=False).amqp.Consumer)


def test_celery_itself_ends_tasks_in_the_main_process_as_we_end_those_that_timed_out():
    """``fail_unrun`` and ``settle_unrun`` do what these do, in their order."""
    timeout, failure = source(Request.on_timeout), source(Request.on_failure)
    assert "self.task.backend.mark_as_failure(" in timeout
    assert "request=self._context" in timeout
    assert "store_result=self.store_errors" in timeout
    assert "acks_on_failure" in failure  # with ``_or_timeout`` before 5.7
    assert "self.reject(requeue=False)" in failure or "self.reject(requeue=requeue)" in failure
