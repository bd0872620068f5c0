"""The kinds never depend on a broker's priorities, whose order differs from broker to broker."""

from __future__ import annotations

import pytest

LONG_SECONDS = 25.0


@pytest.mark.parametrize(
    ("broker", "naive"),
    [("redis", ""), ("redis", "priorities_before_queues"), ("rabbitmq", "")],
    ids=["redis-cured", "redis-naive", "rabbitmq-cured"],
    indirect=["broker"],
)
def test_interactive_goes_first_whatever_priority_its_messages_have(site, naive):
    """S13: 0 is first on Redis and last on RabbitMQ, so here both brokers would be misled once."""
    first, last = (0, 9) if site.broker.name == "redis" else (9, 0)
    # With a share so small nothing is owed to batch, however long the blocker blocks.
    # On a machine that is slow to answer, RabbitMQ may be late for a loop that a task held up.
    pool = "solo" if site.broker.name == "redis" else "threads"
    worker = site.start(naive, pool=pool, concurrency=1, settings={"batch_share": 0.01})
    site.send("b.sleep", "warm")
    site.journal.wait_finished("warm", timeout=LONG_SECONDS)
    site.ask(worker)
    site.block("i.until", "blocker")
    site.journal.wait_started("blocker", timeout=LONG_SECONDS)
    for number in range(6):
        site.send("b.sleep", f"b{number}", 0.05, priority=first)
    for number in range(3):
        site.send("i.sleep", f"i{number}", 0.05, priority=last)
    if pool == "threads":  # RabbitMQ may take a while to give out what it was sent
        site.wait_status(worker, lambda now: _backlogs(now) == {"interactive": 3, "batch": 6})
    site.release()
    site.journal.wait_count(11, timeout=LONG_SECONDS)
    order = "".join(label[0] for label in site.journal.started()[2:])
    before_the_second_batch = order[: order.index("b", order.index("b") + 1)]
    done = before_the_second_batch.count("i")
    assert done < 3 if naive else done == 3, order


def _backlogs(status):
    return {kind: part["backlog"] for kind, part in status["kinds"].items()}


@pytest.mark.brokers("redis", "rabbitmq")
def test_no_message_is_given_a_priority(site):
    """S13: neither a default of ours, nor one kind's."""
    site.send("b.sleep", "b")
    site.send("i.sleep", "i")
    with site.app.connection_for_read() as connection:
        channel = connection.channel()
        for queue in ("celery", "celery.batch"):
            assert not channel.basic_get(queue, no_ack=True).properties.get("priority")
