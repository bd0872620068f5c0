"""RabbitMQ >= 4 as kombu treats it: prefetch belongs to each consumer, and can't be changed."""

from __future__ import annotations

import json
import signal

import pytest

from tests.brokers.waiting import wait_until

LONG_SECONDS = 25.0
SLOTS = 4
QUEUES = ["celery.batch", "b2", "b3", "b4"]

pytestmark = pytest.mark.brokers("rabbitmq")


@pytest.mark.parametrize("naive", ["", "whole_room_a_queue"], ids=["cured", "naive"])
def test_a_lane_s_room_is_for_all_its_queues_together(site, naive, shared_rabbitmq):
    """S11: a consumer a queue, each with the whole of the room, holds four times too much."""
    worker = site.start(
        f"prefetch_per_consumer {naive}",
        concurrency=SLOTS,
        settings={"queues": json.dumps({"batch": QUEUES}), "reserve": 1},
    )
    site.wait_status(worker, lambda status: status["kinds"]["batch"]["credit"] == SLOTS - 1)
    worker.send_signal(signal.SIGSTOP)  # so that the broker sends all that it may
    for number in range(5):
        for queue in QUEUES:
            site.block("b.late_until", f"{queue} {number}", queue=queue)
    worker.send_signal(signal.SIGCONT)
    site.journal.wait_count(SLOTS - 1, "start", LONG_SECONDS)
    vhost = site.broker.url.rsplit("/", 1)[1]
    rows = shared_rabbitmq.queues(vhost, "name", "messages_unacknowledged")
    taken = sum(int(count) for name, count in rows if name in QUEUES)
    if naive:
        assert taken >= (SLOTS - 1) * len(QUEUES)
        return
    assert taken <= len(QUEUES)  # none has less than one
    site.release()
    site.journal.wait_count(5 * len(QUEUES), timeout=LONG_SECONDS)
    wait_until(lambda: site.ask(worker)["kinds"]["batch"]["held"] == 0, "nothing held")
