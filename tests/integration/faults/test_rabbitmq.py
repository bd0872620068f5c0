"""RabbitMQ: queues of every sort, declared by others, deleted, and served one window a consumer."""

from __future__ import annotations

import json

import pytest
from kombu import Connection, Queue

from celery_fair.worker.links import AmqpLink
from tests.brokers.waiting import wait_until
from tests.integration.contract.site import publish

LONG_SECONDS = 30.0
QUORUM = {"task_create_missing_queue_type": "quorum", "task_default_queue_type": "quorum"}

pytestmark = pytest.mark.brokers("rabbitmq")


@pytest.fixture
def vhost(site) -> str:
    return site.broker.url.rsplit("/", 1)[1]


def exists(site, queue):
    with Connection(site.broker.url) as connection:
        try:
            connection.default_channel.queue_declare(queue, passive=True)
        except connection.channel_errors:
            return False
    return True


def delete(site, queue):
    with Connection(site.broker.url) as connection:
        connection.default_channel.queue_delete(queue)


def control(site, command, queue):
    site.app.control.broadcast(
        command, arguments={"queue": queue}, reply=True, limit=1, timeout=LONG_SECONDS
    )


def shut(site, worker, *labels):
    """Take every slot with interactive tasks, so that the batch lane has no credit."""
    site.block("i.until", *labels)
    site.journal.wait_started(*labels, timeout=LONG_SECONDS)
    site.wait_status(worker, lambda status: status["kinds"]["batch"]["credit"] == 0)


# queues declared by others

DECLARED = {
    "celery.batch": {"x-max-priority": 10},
    "expiring": {"x-message-ttl": 3_600_000, "x-expires": 3_600_000},
    "counting": {"x-queue-type": "quorum"},
    "later": {"x-max-length": 1000},
}


@pytest.mark.parametrize("naive", ["", "declare_regardless"], ids=["cured", "naive"])
def test_a_queue_declared_by_others_is_named_and_taken_as_it_is(site, naive):
    """E7: a declaration that differs is refused with 406, and ends a worker.

    B1 on the way: ``worker_disable_prefetch`` is ignored where there is no Redis. And publisher
    confirms, which nothing of ours may wait for.
    """
    with Connection(site.broker.url) as connection:
        for name, arguments in DECLARED.items():
            Queue(name, queue_arguments=arguments)(connection.channel()).queue_declare()
            site.app.conf.task_queues = [*(site.app.conf.task_queues or ()), Queue(name)]
    options = {
        "concurrency": 2,
        "settings": {"queues": json.dumps({"batch": list(DECLARED)})},
        "conf": {
            "worker_disable_prefetch": True,
            "broker_transport_options": {"confirm_publish": True},
        },
        "queues": ",".join(["celery", *DECLARED][:-1]),
    }
    if naive:
        worker = site.start(naive, wait_ready=False, **options)
        assert worker.wait(LONG_SECONDS) != 0
        assert "PreconditionFailed" in worker.log_text()
        return
    worker = site.start(**options)
    for queue in site.app.amqp.queues.values():  # a publisher that declares nothing
        queue.no_declare = True
    control(site, "add_consumer", "later")
    for name in DECLARED:
        site.send("b.late", f"in {name}", queue=name)
    site.send("i.retrying", "retried")
    site.journal.wait_finished(*(f"in {name}" for name in DECLARED), timeout=LONG_SECONDS)
    log = worker.log_text()
    for name, arguments in DECLARED.items():
        (line,) = [one for one in log.splitlines() if f"the queue {name} was declared" in one]
        assert all(f"{key}: {value}" in line for key, value in arguments.items())
    assert "CRITICAL" not in log
    assert site.ask(worker, "fair_probe")["restarts"] == 0


def test_the_fleet_s_word_does_not_wait_to_be_confirmed(site):
    """With ``confirm_publish`` each publish waits for the broker: here, that would be the loop."""
    options = {"confirm_publish": True}
    site.app.conf.broker_transport_options = options
    with Connection(site.broker.url) as connection:
        Queue("celery")(connection.channel()).queue_declare()
    link = AmqpLink(site.app)
    try:
        link.ask(["celery"], ("name", "word"))
        assert list(link._pending) == ["celery"]  # its answer is sent before a confirmation
    finally:
        link.close()


# queues that go


@pytest.mark.parametrize("naive", ["", "end_with_the_queue"], ids=["cured", "naive"])
def test_a_queue_deleted_under_a_worker_is_declared_and_consumed_again(site, naive):
    """While its lane is open RabbitMQ cancels the consumer; while it is shut there is none."""
    worker = site.start(f"prefetch_per_consumer {naive}", concurrency=1)
    site.ask(worker)  # Celery's loop begins with 0.1 s in which no exception is heeded
    if not naive:
        delete(site, "celery")
        worker.wait_for_log("Connection to broker lost", timeout=LONG_SECONDS)
        wait_until(lambda: exists(site, "celery"), "the queue", timeout=LONG_SECONDS)
    shut(site, worker, "blocker")
    delete(site, "celery.batch")
    site.release()
    if naive:
        worker.wait_for_log("Unrecoverable error: NotFound", timeout=LONG_SECONDS)
        return
    wait_until(lambda: exists(site, "celery.batch"), "the queue", timeout=LONG_SECONDS)
    site.send("i.sleep", "i")
    site.send("b.sleep", "b")
    site.journal.wait_finished("i", "b", timeout=LONG_SECONDS)
    assert worker.running


# quorum queues


@pytest.mark.parametrize("naive", ["", "cancel_under_way"], ids=["cured", "naive"])
def test_a_quorum_queue_s_delivery_limit_is_not_used_up(site, naive, shared_rabbitmq, vhost, full):
    """The gate flaps under a limit of no second delivery: what is counted once is dropped.

    RabbitMQ takes back what is on its way to a consumer that is cancelled, and counts it.
    """
    limit = '{"delivery-limit": 0}'
    shared_rabbitmq.ctl("set_policy", "-p", vhost, "limit", "celery", limit)
    site.app.conf.update(QUORUM)
    worker = site.start(naive, concurrency=2, conf=QUORUM)
    count = 1000 if full else 100
    for published in range(count, 6 * count, count):
        for number in range(published - count, published, 10):
            for kind, seconds in (("b", 0.005), ("i", 0.0)):
                labels = [f"{kind}{number + more}" for more in range(10)]
                publish(site.app, f"{kind}.late", labels, seconds)
        if not naive:  # not by the broker's word alone, which is some seconds old
            site.journal.wait_count(2 * count, timeout=4 * LONG_SECONDS)
        wait_until(
            lambda: (
                set(site.journal.started()) == set(site.journal.finished())
                and not sum(left(shared_rabbitmq, vhost))
            ),
            "nothing to be left at the broker",
            timeout=4 * LONG_SECONDS,
        )
        starts = site.starts()
        if not naive or len(starts) < 2 * published:
            break
    if naive:
        assert len(starts) < 2 * published
        return
    assert len(starts) == 2 * count
    assert set(starts.values()) == {1}
    assert "CRITICAL" not in worker.log_text()


def left(server, vhost):
    rows = server.queues(vhost, "name", "messages")
    return [int(count or 0) for name, count in rows if name in ("celery", "celery.batch")]


# a window a consumer: RabbitMQ >= 4 as kombu treats it


@pytest.mark.parametrize("naive", ["", "leave_the_spent"], ids=["cured", "naive"])
def test_late_tasks_of_one_queue_take_every_slot_while_the_others_are_silent(site, naive, refuted):
    """H3: each queue's consumer has a part of the room, and a silent one's is not lost."""
    queues = {"interactive": ["celery", "web", "api", "push"]}
    worker = site.start(
        f"prefetch_per_consumer {naive}",
        concurrency=4,
        settings={"queues": json.dumps(queues)},
    )
    labels = [f"web{number}" for number in range(4)]
    site.block("i.late_until", *labels, queue="web")
    if naive:
        refuted(lambda: len(site.journal.started()) == 4)
        return
    site.journal.wait_started(*labels, timeout=LONG_SECONDS)
    site.release()
    site.journal.wait_finished(*labels, timeout=LONG_SECONDS)
    site.wait_status(worker, lambda now: now["kinds"]["interactive"]["running"] == 0)


@pytest.mark.parametrize("naive", ["", "replace_by_pausing"], ids=["cured", "naive"])
def test_an_auto_delete_queue_keeps_a_consumer_and_gets_as_wide_a_window_as_others(site, naive):
    """T16: its consumer is replaced by another one, and never just cancelled."""
    worker = site.start(
        f"prefetch_per_consumer {naive}",
        app="tests.apps.kept",
        concurrency=3,
        env={"KEPT": "auto_delete"},
        settings={"reserve": 1},
    )
    site.app.conf.task_queues = [Queue("celery"), Queue("celery.batch", no_declare=True)]
    site.block("b.late_until", "b0", "b1", queue="celery.batch")
    if naive:
        worker.wait_for_log("Connection to broker lost", timeout=LONG_SECONDS)
        return
    site.journal.wait_started("b0", "b1", timeout=LONG_SECONDS)
    shut(site, worker, "i0")
    assert exists(site, "celery.batch")
    site.send("b.late", "b2", queue="celery.batch")
    site.release()
    site.journal.wait_finished("b2", timeout=LONG_SECONDS)
    assert site.ask(worker, "fair_probe")["restarts"] == 0
