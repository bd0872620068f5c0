"""Who is measured: the ways that a user could choose, and those that were found wanting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BROKER_VARIABLE = "OTHERS_BROKER"
"""In the environment of whoever publishes and of the workers: the broker's address."""
SETUP_VARIABLE = "OTHERS_SETUP"
"""Likewise: the ruler's setup."""
ADAPTERS = "tests.benchmarks.others.adapters"


@dataclass(frozen=True, slots=True)
class Contestant:
    """A way of running both kinds of work on the same number of slots.

    ``setup`` is the ruler's name for it, where it is Celery. ``environment`` is the name of the
    requirements with which it runs, or empty for those of celery-fair. Under the loads in
    ``alone_under`` it needs so much CPU that nothing may run beside it.
    """

    name: str
    broker: str
    adapter: str
    what: str
    docs: str
    setup: str = ""
    environment: str = "others"
    takes_batch: bool = True
    alone_under: Sequence[str] = ()

    @property
    def module(self) -> str:
        return f"{ADAPTERS}.{self.adapter}"


CELERY_DOCS = "https://docs.celeryq.dev/en/stable/userguide/"
OPTIMIZING = CELERY_DOCS + "optimizing.html#prefetch-limits"
ROUTING = CELERY_DOCS + "routing.html"
WORKERS = CELERY_DOCS + "workers.html#queues"
OURS = "docs/how-it-works.md"


def _celery(name: str, broker: str, what: str, docs: str, setup: str = "") -> Contestant:
    takes_batch = not name.startswith("interactive-only")
    return Contestant(
        name, broker, "celery_setups", what, docs, setup or name, "", takes_batch=takes_batch
    )


_RESERVED = "Celery: two workers, one slot for interactive tasks only, the rest for both; late acks"
_FAIR = "Celery with celery-fair, settings at their defaults: one worker"
_DRAMATIQ = (
    "dramatiq: one process of eight threads, a queue and a priority for each kind, prefetch at its "
    "default of two a thread, since it sorts by priority what is prefetched"
)
_DRAMATIQ_DOCS = "https://dramatiq.io/guide.html#prioritizing-messages"

CONTESTANTS = {
    one.name: one
    for one in [
        _celery("interactive-only", "redis", "Celery without any batch: the ideal", WORKERS),
        _celery("fifo", "redis", "Celery: one worker, one queue", WORKERS),
        _celery(
            "redis-priority-late",
            "redis",
            "Celery: one queue, message priorities, prefetch 1, late acks",
            ROUTING + "#redis-message-priorities",
        ),
        _celery(
            "two-queues-strict-late",
            "redis",
            "Celery: one worker, two queues in strict order, prefetch 1, late acks",
            ROUTING + "#redis-message-priorities",
        ),
        _celery(
            "dedicated-late",
            "redis",
            "Celery: two workers, 6 slots for batch only, 2 for interactive only; late acks",
            WORKERS,
        ),
        _celery("reserved-slot-late", "redis", _RESERVED, WORKERS),
        _celery("fair", "redis", _FAIR, OURS, "fair:fair"),
        _celery(
            "fair-reserve-2",
            "redis",
            "the same with reserve=2",
            OURS,
            "tests.benchmarks.contestants:fair_reserve_2",
        ),
        Contestant(
            "celery-ranch",
            "redis",
            "with_ranch",
            "Celery with the add-on celery-ranch: the least recently served key first; its "
            "prioritising tasks in a queue of their own, prefetch 1, late acks",
            "https://github.com/teleos-consulting/celery-ranch",
        ),
        Contestant("dramatiq", "redis", "with_dramatiq", _DRAMATIQ, _DRAMATIQ_DOCS),
        Contestant(
            "huey",
            "redis",
            "with_huey",
            "huey: eight threads, PriorityRedisHuey, a priority for each kind; it has no late acks",
            "https://huey.readthedocs.io/en/latest/guide.html#priority",
        ),
        Contestant(
            "rq",
            "redis",
            "with_rq",
            "rq: worker-pool of eight processes (a fork a job), the queue high before low",
            "https://python-rq.org/docs/workers/#worker-pool",
            alone_under=("bursts", "flood"),
        ),
        Contestant(
            "arq",
            "redis",
            "with_arq",
            "arq: it has no priorities, so two asyncio workers, 6 slots for batch and 2 for "
            "interactive jobs, which await asyncio.sleep; poll_delay 0.05 s, since by default it "
            "takes new jobs every 0.5 s only",
            "https://github.com/python-arq/arq/issues/360",
            environment="arq",
        ),
        _celery(
            "rabbit-priority-late",
            "rabbitmq",
            "Celery: one queue with x-max-priority, prefetch 1, late acks",
            ROUTING + "#rabbitmq-message-priorities",
        ),
        _celery(
            "reserved-slot-late-rabbitmq", "rabbitmq", _RESERVED, WORKERS, "reserved-slot-late"
        ),
        _celery("fair-rabbitmq", "rabbitmq", _FAIR, OURS, "fair:fair"),
        Contestant("dramatiq-rabbitmq", "rabbitmq", "with_dramatiq", _DRAMATIQ, _DRAMATIQ_DOCS),
    ]
}

NOT_MEASURED = {
    "chronoq-celery 0.2.0": (
        "installs; orders tasks by predicted run time in a heap of the process that publishes, "
        "which is emptied by the signal task_success; that is sent in the worker, so where workers "
        "are processes of their own nothing held is ever published (read in its source)"
    ),
    "celery-throttle 0.1.0b1": (
        "needs Python 3.12 or newer; token buckets that limit a rate, not an order among kinds"
    ),
    "django-celery-token-bucket 5.0.0": "limits a rate by retrying tasks; no order among kinds",
    "celery-dispatcher 1.1.3": "splits a task into many; no order among kinds",
    "celery-redis-plus 0.4.1": (
        "needs Python 3.13 or newer; a Redis transport with more priority steps: strict priority, "
        "as redis-priority-late"
    ),
    "kombu-redis-priority 0.3.0": (
        "of 2018; installs, and fails at import with a SyntaxError on Python 3.7 and newer; strict "
        "priority, as redis-priority-late"
    ),
    "taskiq 0.13": "no priorities on Redis; on RabbitMQ those of the broker",
    "procrastinate 3.10": (
        "priorities in PostgreSQL, which is another service to run; strict priority, as huey's"
    ),
}
"""What was found on the package index and has no row, and why."""
