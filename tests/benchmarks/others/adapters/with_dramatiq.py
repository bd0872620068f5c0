"""dramatiq: a queue and a priority for each kind. Workers sort by priority what they prefetched."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker
from mixed_load.contestant import Call

from tests.benchmarks.others.bodies import broker_url, journal, perform
from tests.benchmarks.others.processes import Worker


class ReportReady(dramatiq.Middleware):
    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        journal.ready()


def make_broker(url: str) -> dramatiq.Broker:
    if url.startswith("redis"):
        return RedisBroker(url=url)
    # kombu reads amqp://host// as the vhost /; pika wants it quoted.
    return RabbitmqBroker(url=url.rstrip("/") + "/%2F")


broker = make_broker(broker_url())
broker.add_middleware(ReportReady())
dramatiq.set_broker(broker)

ACTORS = {
    kind: dramatiq.actor(
        perform[kind], actor_name=kind, queue_name=kind, priority=priority, max_retries=0
    )
    for kind, priority in {"interactive": 0, "batch": 10}.items()
}


def workers(slots: int) -> list[Worker]:
    arguments = ["dramatiq", __name__, "--processes", "1", "--threads", str(slots)]
    # The prefetch stays at two a thread: they are sorted together, and with less of them a thread
    # takes batch while the next interactive ones are fetched.
    return [Worker(arguments, slots)]


def submit(kind: str, call: Call) -> None:
    ACTORS[kind].send(*call.args)
