"""Which queues have a front, what is sent there, and what goes the way that Celery sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Exchange, Queue
from kombu.common import Broadcast

from celery_fair import Fair
from celery_fair.front import front_like, fronts_first, may_have_front
from celery_fair.routing import FRONT, front_of, is_front
from celery_fair.worker.fleet import Fleet
from tests.unit.worker.test_fleet import _member

TOPIC = Exchange("own", "topic")


# names and kinds


def test_a_front_has_its_queue_s_name_and_no_front(app: Celery) -> None:
    assert front_of("celery") == "celery" + FRONT
    assert is_front("celery.front")
    assert not is_front("celery")
    fair = Fair(app)
    assert not may_have_front(Queue("celery.front", Exchange("")), fair.is_part)


def test_a_queue_that_is_only_called_like_a_front_or_a_shard_has_its_own(app: Celery) -> None:
    """A team may have split a queue by hand long ago, and named it so."""
    app.conf.task_queues = [Queue("celery"), Queue("store.front"), Queue("mail.shard-03")]
    fair = Fair(app, batch_shards=4)
    for name in ("store.front", "mail.shard-03"):
        assert not fair.is_part(name)
        assert may_have_front(app.amqp.queues[name], fair.is_part)
    assert fair.is_part("celery.batch.shard-12")
    assert fair.whole(app.amqp.queues["celery.batch.shard-03"]).name == "celery.batch"
    app.amqp.queues.add(Queue("mail"))
    assert fair.whole(app.amqp.queues["mail.shard-03"]).name == "mail.shard-03"


def test_a_front_has_the_kind_of_its_queue(app: Celery) -> None:
    fair = Fair(app, queues={"batch": ["reports"]})
    assert fair.kind_of_queue("reports.front") == "batch"
    assert fair.kind_of_queue("celery.front") == "interactive"
    assert fair.kind_of_queue("unknown.front") == fair.kind_of_queue("unknown")


def test_what_is_mapped_to_a_kind_by_name_stays_so(app: Celery) -> None:
    fair = Fair(app, queues={"batch": ["store"], "interactive": ["celery", "store.front"]})
    assert fair.kind_of_queue("store.front") == "interactive"


def test_fronts_don_t_part_a_fleet_of_two_versions() -> None:
    older, newer = Fleet("older"), Fleet("newer")
    me = _member("me")
    word = newer.word(me, ["celery", "celery.front"])
    assert older.word(me, ["celery"]) == word
    assert newer.word(me, ["celery.front"]).split(",")[0] != word.split(",")[0]


# declarations


@pytest.mark.parametrize(
    "queue",
    [
        Queue("q", Exchange("q"), auto_delete=True),
        Queue("q", Exchange("q"), exclusive=True),
        Queue("q", Exchange("q"), expires=60),
        Queue("q", Exchange("q"), no_declare=True),
        Queue("q", Exchange("q"), queue_arguments={"x-expires": 60_000}),
        Queue("q", Exchange("q"), queue_arguments={"x-single-active-consumer": True}),
        Queue("q", Exchange("q"), queue_arguments={"x-queue-type": "stream"}),
        Queue("q", Exchange("q", "fanout")),
        Queue("q" * 250, Exchange("q")),
        Broadcast("q"),
    ],
    ids=lambda queue: repr(queue.queue_arguments or queue.exchange.type),
)
def test_a_queue_that_vanishes_or_keeps_an_order_has_none(queue: Any) -> None:
    assert not may_have_front(queue, lambda name: False)


def test_a_front_is_declared_as_its_queue_is() -> None:
    arguments = {"x-queue-type": "quorum", "x-max-priority": 5}
    queue = Queue("q", Exchange("q", delivery_mode=1), durable=False, queue_arguments=arguments)
    queue.max_length = 10
    front = front_like(queue)
    assert (front.name, front.routing_key, front.exchange.name) == ("q.front", "q.front", "")
    assert front.exchange.delivery_mode == 1
    assert (front.durable, front.max_length) == (False, 10)
    assert front.queue_arguments == arguments
    assert front.queue_arguments is not arguments


def test_a_dead_message_of_the_front_goes_where_its_queue_s_go() -> None:
    queue = Queue("q", Exchange("q"), queue_arguments={"x-dead-letter-exchange": "dead"})
    assert front_like(queue).queue_arguments["x-dead-letter-routing-key"] == "q"


# publishing


@pytest.fixture
def send(app: Celery, sent: Callable[[], Any]) -> Callable[..., str]:
    """``send(to_front, …)``: the queue in which a message of these options is found."""
    fair = Fair.of(app) or Fair(app, queues={"batch": ["reports"]})
    prepare = fair.prepare
    urgent = []

    def prepare_urgent(*args: Any) -> Any:
        publish = prepare(*args)
        publish.to_front = bool(urgent[-1])
        return publish

    fair.prepare = prepare_urgent  # type: ignore[method-assign]

    def run(to_front: bool = True, **options: Any) -> str:
        urgent.append(to_front)
        app.send_task("a.task", **options)
        (message,) = sent()
        return str(message.queue)

    return run


def test_what_is_urgent_goes_to_the_front(send: Any) -> None:
    assert send(to_front=False) == "celery"
    assert send() == "celery.front"
    assert send(queue="reports") == "reports.front"
    assert send(countdown=60) == "celery.front"


def test_a_queue_of_any_key_on_a_direct_exchange_is_reached_by_its_name(
    app: Celery, send: Any
) -> None:
    app.amqp.queues.add(Queue("direct", Exchange("own direct"), "some key"))
    assert send(queue="direct") == "direct.front"


def test_what_isn_t_one_queue_for_sure_has_no_front(app: Celery, send: Any) -> None:
    app.amqp.queues.add(Queue("bound", TOPIC, "some.*"))
    assert send(queue="bound", routing_key="some.key") == "bound"
    with app.connection_for_write() as connection:
        Queue("bound", TOPIC, "some.*")(connection.default_channel).declare()
    assert send(exchange="own", routing_key="some.key", exchange_type="topic") == "bound"


def test_switched_off_nothing_goes_there(make_app: Any, sent: Any) -> None:
    app = make_app()
    fair = Fair(app, front_queues=False)
    assert not fair.fronts.takes("celery", {})


def test_a_broker_whose_queues_cost_money_has_none(app: Celery, monkeypatch: Any) -> None:
    fair = Fair(app)
    monkeypatch.setattr("kombu.transport.memory.Transport.driver_type", "sqs")
    assert not fair.fronts.takes("celery", {})


def test_the_broker_is_asked_now_and_then(app: Celery, monkeypatch: Any) -> None:
    fair, asked, now = Fair(app), [], [0.0]
    monkeypatch.setattr("celery_fair.front.monotonic", lambda: now[0])
    monkeypatch.setattr(fair.fronts, "_ask", lambda front, given: asked.append(front) or True)
    for now[0] in (0.0, 4.9, 5.1):
        assert fair.fronts.takes("celery", {})
    assert asked == ["celery.front", "celery.front"]


@pytest.mark.timeout(10)
def test_who_holds_the_last_connection_of_the_pool_asks_on_it(app: Celery, send: Any) -> None:
    app.conf.broker_pool_limit = 1
    with app.producer_or_acquire() as producer:
        assert send(producer=producer) == "celery.front"
        assert send(connection=producer.connection) == "celery.front"
    assert send() == "celery.front"


@pytest.mark.timeout(10)
def test_without_a_free_connection_there_is_no_front_this_time(make_app: Any) -> None:
    app = make_app(broker_pool_limit=1)
    fronts = Fair(app).fronts
    with app.producer_or_acquire():
        assert not fronts.takes("celery", {})
    assert fronts.takes("celery", {})


def test_what_another_broker_says_is_believed_of_that_one_alone(
    app: Celery, monkeypatch: Any
) -> None:
    fronts, other = Fair(app).fronts, Connection("memory://elsewhere")
    monkeypatch.setattr(fronts, "_ask", lambda front, given: given is None)
    for _ in range(2):
        assert not fronts.takes("celery", {"connection": other})
        assert fronts.takes("celery", {})


# retries


@pytest.fixture
def retried(app: Celery, sent: Any) -> Callable[..., str]:
    """``retried(queue it came from, …)``: the queue to which a retry is sent."""
    fair = Fair.of(app) or Fair(app, queues={"batch": ["reports"]})
    fair.fronts.served = True

    @app.task(name="a.task", bind=True, shared=False)
    def task(self: Any) -> None: ...

    def run(came: str, was: str = "interactive", **options: Any) -> str:
        info = {"exchange": "", "routing_key": came, "priority": 0, "redelivered": False}
        task.push_request(
            id="1",
            called_directly=False,
            args=(),
            kwargs={},
            delivery_info=info,
            headers={"fair": f"{was} 1790000000.0"},
        )
        from celery._state import _task_stack

        _task_stack.push(task)
        try:
            task.retry(throw=False, countdown=0, **options)
        finally:
            _task_stack.pop()
            task.pop_request()
        (message,) = sent()
        assert message.header.first_published == 1790000000.0
        return str(message.queue)

    return run


def test_an_interactive_retry_goes_to_the_front_of_where_it_was(retried: Any) -> None:
    assert retried("celery") == "celery.front"
    assert retried("other") == "other.front"


def test_a_second_retry_stays_in_front(retried: Any) -> None:
    assert retried("celery.front") == "celery.front"


def test_a_batch_retry_goes_to_its_queue(retried: Any) -> None:
    assert retried("reports", "batch") == "reports"
    assert retried("reports.front", "batch") == "reports"


def test_a_retry_that_names_another_queue_goes_there(retried: Any) -> None:
    assert retried("celery", queue="other") == "other"


def test_one_that_changes_its_kind_goes_to_the_queue_of_that(retried: Any) -> None:
    assert retried("celery", kind="batch") == "reports"
    assert retried("celery.front", kind="batch") == "reports"
    assert retried("reports", "batch", kind="interactive") == "celery"


def test_outside_a_worker_that_consumes_fronts_it_goes_to_the_back(
    retried: Any, app: Celery
) -> None:
    Fair.of(app).fronts.served = False
    assert retried("celery") == "celery"
    assert retried("celery.front") == "celery"


def test_retries_of_a_queue_that_is_only_called_so_go_to_its_own_front(
    retried: Any, app: Celery
) -> None:
    app.amqp.queues.add(Queue("shop.front", Exchange("shop.front"), "shop.front"))
    assert retried("shop.front") == "shop.front.front"


def test_fronts_come_before_all_and_a_queue_that_is_only_called_so_does_not() -> None:
    names = ["celery", "shop.front", "reports", "celery.front"]
    assert fronts_first(names) == ["celery.front", "celery", "shop.front", "reports"]
