"""RabbitMQ: a lane's window follows its credit, and no queue is harmed by it."""

from __future__ import annotations

import pytest
from kombu import Connection, Queue

from tests.apps import kept
from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
QUORUM = {"task_create_missing_queue_type": "quorum", "task_default_queue_type": "quorum"}

pytestmark = pytest.mark.brokers("rabbitmq")


@pytest.fixture
def vhost(site) -> str:
    return site.broker.url.rsplit("/", 1)[1]


def figures(shared_rabbitmq, vhost, *columns):
    """The figures of each queue by its name."""
    rows = shared_rabbitmq.queues(vhost, "name", *columns)
    return {row[0]: [int(figure or 0) for figure in row[1:]] for row in rows}


def shut(site, worker, slots=2):
    """Take every slot with interactive tasks, so that the batch lane has no credit."""
    labels = [f"blocker{number}" for number in range(slots)]
    site.block("i.until", *labels)
    site.journal.wait_started(*labels)
    site.wait_status(worker, lambda status: status["kinds"]["batch"]["credit"] == 0)


@pytest.mark.parametrize("naive", ["", "prefetch_zero"], ids=["cured", "naive"])
def test_a_shut_lane_takes_nothing(site, naive, shared_rabbitmq, vhost):
    """S10: a prefetch count of 0 is no limit at all."""
    worker = site.start(naive, concurrency=2)
    shut(site, worker)
    for number in range(50):
        site.send("b.late", f"b{number}")

    def places():
        columns = ("messages_ready", "messages_unacknowledged")
        return figures(shared_rabbitmq, vhost, *columns)["celery.batch"]

    wait_until(lambda: sum(places()) == 50, lambda: f"50 to be at the broker: {places()}")
    if naive:
        wait_until(lambda: places()[1] == 50, "all to be taken")
        return
    site.ask(worker)  # twice through the loop: what it was given, it has seen
    site.ask(worker)
    assert places()[1] <= 1


@pytest.mark.parametrize("naive", ["", "wait_for_replies"], ids=["cured", "naive"])
def test_no_message_is_delivered_within_another_s_handling(site, naive):
    """T14: ``basic.qos`` and ``basic.cancel`` wait for a reply, and deliver while they wait."""
    for number in range(300):
        site.send("b.sleep" if number % 2 else "i.sleep", f"{number}")
    site.start(naive, concurrency=4, watched="nesting")
    site.journal.wait_count(300, timeout=2 * LONG_SECONDS)
    nested = site.journal.labels("nested")
    assert nested if naive else not nested


@pytest.mark.parametrize("naive", ["", "one_lane_for_new_queues"], ids=["cured", "naive"])
def test_a_queue_cancelled_and_added_again_is_its_own_lane_s(site, naive):
    """T13: kombu calls back by the queue's name, so that one on two channels breaks."""
    worker = site.start(naive, concurrency=2)
    for _ in range(3):
        site.app.control.cancel_consumer("celery.batch", reply=True, limit=1, timeout=5)
        site.app.control.add_consumer("celery.batch", reply=True, limit=1, timeout=5)
    for number in range(4):
        site.send("b.late", f"b{number}")
        site.send("i.late", f"i{number}")
    site.journal.wait_count(4 if naive else 8, timeout=LONG_SECONDS)
    kinds = site.ask(worker)["kinds"]
    assert kinds["batch"]["dispatched"] == (0 if naive else 4)
    assert naive or kinds["interactive"]["dispatched"] == 4


def test_queues_come_and_go_while_their_lane_is_shut(site):
    """T13: a window that is shut must not consume from a new queue, nor twice from an old one."""
    worker = site.start(concurrency=2, settings={"queues": '{"batch": ["celery.batch", "more"]}'})
    shut(site, worker)
    for queue in ("more", "celery.batch"):
        site.app.control.cancel_consumer(queue, reply=True, limit=1, timeout=5)
        site.app.control.add_consumer(queue, reply=True, limit=1, timeout=5)
        site.send("b.late", f"in {queue}", queue=queue)
    site.release()
    site.journal.wait_finished("in more", "in celery.batch", timeout=LONG_SECONDS)
    assert site.ask(worker, "fair_probe")["restarts"] == 0


@pytest.mark.parametrize("naive", ["", "declare_by_hand"], ids=["cured", "naive"])
def test_a_quorum_deployment_gets_quorum_queues(site, naive, shared_rabbitmq, vhost):
    """T17: a queue declared by hand is a classic one, and meets Celery's own with a 406."""
    site.start(naive, concurrency=2, conf=QUORUM)
    rows = shared_rabbitmq.queues(vhost, "name", "type")
    types = {name: kind for name, kind in rows if name in ("celery", "celery.batch")}
    assert set(types.values()) == {"classic" if naive else "quorum"}
    if naive:
        return
    site.app.conf.update(QUORUM)
    site.send("i.late", "i")
    site.send("b.late", "b")
    site.journal.wait_finished("i", "b", timeout=LONG_SECONDS)


@pytest.mark.parametrize("naive", ["", "give_back_to_any_queue"], ids=["cured", "naive"])
def test_a_quorum_queue_loses_nothing_to_a_gate_that_stays_shut(
    site, naive, shared_rabbitmq, vhost
):
    """T15: such a queue drops what was given back too often (RabbitMQ >= 4: 20 times)."""
    limit = '{"delivery-limit": 2}'
    shared_rabbitmq.ctl("set_policy", "-p", vhost, "limit", "batch", limit)
    site.app.conf.update(QUORUM)
    settings = {"hold_max_seconds": 1}
    worker = site.start(naive, concurrency=2, hoard=4, conf=QUORUM, settings=settings)
    site.block("i.until", "i0", "i1")
    site.journal.wait_started("i0", "i1")
    for number in range(4):
        site.send("b.late", f"b{number}")
    if naive:
        wait_until(lambda: _gone(shared_rabbitmq, vhost), "the queue to drop", timeout=LONG_SECONDS)
        return
    status = site.wait_status(worker, lambda status: status["kinds"]["batch"]["held"] == 4)
    reads = status["sensor"]["reads"] + 8  # one a second: long past ``hold_max_seconds``
    status = site.wait_status(worker, lambda status: status["sensor"]["reads"] >= reads)
    assert status["kinds"]["batch"]["given_back"] == 0
    site.release()
    site.journal.wait_finished(*(f"b{number}" for number in range(4)), timeout=LONG_SECONDS)


def _gone(shared_rabbitmq, vhost):
    return figures(shared_rabbitmq, vhost, "messages")["celery.batch"] == [0]


@pytest.mark.parametrize("naive", ["", "cancel_any_consumer"], ids=["cured", "naive"])
@pytest.mark.parametrize("queue", ["auto_delete", "expires"])
def test_a_queue_that_lives_by_its_consumer_outlives_a_shut_gate(
    site, queue, naive, shared_rabbitmq, vhost
):
    """T16: cancelling the consumer deletes it, with all that is in it.

    The sensor's looks renew the lease of a queue that expires, so they are few here.
    """
    worker = site.start(
        naive,
        app="tests.apps.kept",
        concurrency=2,
        env={"KEPT": queue},
        settings={"sensor_interval_seconds": 5},
    )
    shut(site, worker)
    with Connection(site.broker.url) as connection:
        twin = Queue("twin", expires=kept.EXPIRY_SECONDS)
        twin(connection.channel()).queue_declare()
        wait_until(
            lambda: "twin" not in figures(shared_rabbitmq, vhost),
            "the expiry of a queue without a consumer",
            timeout=LONG_SECONDS,
        )
    if naive:
        wait_until(
            lambda: "celery.batch" not in figures(shared_rabbitmq, vhost),
            "the end of the batch queue",
            timeout=LONG_SECONDS,
        )
        return
    assert "celery.batch" in figures(shared_rabbitmq, vhost)


@pytest.mark.parametrize("naive", ["", "cancel_any_consumer"], ids=["cured", "naive"])
def test_a_single_active_consumer_keeps_its_queue_while_the_gate_is_shut(site, naive):
    """T16: cancelled, it would hand the queue to a standby, and its order with it.

    Nor may what it holds go round in circles, broker and worker: there is nobody else to take it.
    """
    site.app.conf.update(kept.conf("single_active"))
    options = {"app": "tests.apps.kept", "concurrency": 2, "env": {"KEPT": "single_active"}}
    active = site.start(naive, watched="returns", **options)
    shut(site, active)
    standby = site.start(naive, **options)
    site.wait_status(active, lambda status: status["fleet"]["workers"] == 2)
    site.send("b.late", "b")
    if naive:
        site.journal.wait_finished("b", timeout=LONG_SECONDS)
        return
    site.wait_held(active, "batch", 1)
    reads = site.ask(active)["sensor"]["reads"] + 10
    site.wait_status(active, lambda status: status["sensor"]["reads"] >= reads)
    assert len(site.journal.labels("returned")) <= 2
    assert "b" not in site.journal.started()
    site.release()
    site.journal.wait_finished("b", timeout=LONG_SECONDS)
    assert site.ask(standby)["kinds"]["batch"]["dispatched"] == 0
