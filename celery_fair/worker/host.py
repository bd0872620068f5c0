"""What must be there of Celery, kombu and the brokers' clients, looked up before any of it is used.

A version in which one of these names has moved would have the worker die, or worse, hold messages
for ever. So `FairStep` asks first, and leaves the worker as Celery made it if one is missing.
"""

from __future__ import annotations

import dis
import logging
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

logger = logging.getLogger(__name__)

NEWEST_RUN = (5, 7)
"""The newest Celery that CI has run; `docs/support.md` says the same."""


class Need(NamedTuple):
    """Names that one module or class must have, and what they are needed for."""

    where: str
    names: str
    purpose: str


EVERYWHERE = (
    Need("celery.worker.state",
         "active_requests reserved_requests requests revoked revoked_stamps task_ready "
         "task_reserved",
         "the books in which slots are looked up"),
    Need("celery.worker.state", "should_stop should_terminate",
         "not to start anything during a shutdown"),
    Need("celery.worker.request:Request",
         "_message _already_revoked _already_cancelled acknowledged delivery_info expires "
         "revoked time_start",
         "requests that are held, revoked or given back"),
    Need("celery.worker.request:Request", "_context acknowledge reject send_event store_errors",
         "failing what has waited for too long"),
    Need("celery._state", "_task_stack", "failing what has waited for too long"),
    Need("celery.worker.consumer:Consumer",
         "on_task_request apply_eta_task _limit_task _limit_post_eta on_decode_error",
         "holding what arrives"),
    Need("celery.worker.consumer:Consumer", "on_close on_connection_error_after_connected",
         "letting go when the connection is lost"),
    Need("celery.worker.consumer:Consumer",
         "_maximum_prefetch_restored max_prefetch_count restart_count",
         "new lanes after a reconnect"),
    Need("celery.worker.consumer:Consumer", "add_task_queue cancel_task_queue",
         "the fronts of queues that come and go"),
    Need("celery.app.amqp:Queues", "_consume_from", "shards of the queues that -Q names"),
    Need("celery.worker.consumer.tasks:Tasks", "qos_global", "telling whose a prefetch count is"),
    Need("kombu.pidbox:Node", "dispatch handle_message", "orders by remote control"),
    Need("celery.worker.consumer.tasks:Tasks", "start", "Celery's own order while it runs"),
    Need("kombu.connection:Connection", "_default_channel", "a channel for the other mode"),
    Need("celery.worker.worker:WorkController", "_process_task", "dispatching"),
    Need("celery.worker.components:Pool", "min_concurrency max_concurrency",
         "slots, and how many there may be"),
    Need("celery.bootsteps:Blueprint", "on_close", "letting go when the connection is lost"),
    Need("celery.concurrency.base:BasePool", "_state RUN apply_async num_processes",
         "slots, and which of them are free"),
    Need("celery.worker.consumer.events:Events", "start", "telling the cluster"),
    Need("celery.events.dispatcher:EventDispatcher", "enabled send", "telling the cluster"),
    Need("kombu.asynchronous.timer:Timer", "_queue call_repeatedly", "the tick"),
    Need("kombu.messaging:Consumer", "_active_tags _add_tag _queues _receive_callback on_message",
         "a consumer a lane"),
    Need("kombu.message:Message", "_state", "giving messages back"),
)  # fmt: skip

ON_VIRTUAL = (
    Need("kombu.transport.virtual.base:Channel", "_lookup _size qos", "lanes on this transport"),
    Need("kombu.transport.virtual.base:QoS",
         "append can_consume can_consume_max_estimate _quick_ack", "lanes on this transport"),
    Need("kombu.transport.virtual.base:Message", "_raw", "giving messages back"),
)  # fmt: skip

BY_TRANSPORT = {
    "redis": (
        *ON_VIRTUAL,
        Need("kombu.transport.redis:Channel",
             "_in_poll _brpop_start _brpop_read _do_restore_message _pool _q_for_pri "
             "_queue_cycle active_queues client conn_or_acquire global_keyprefix priority_steps "
             "unacked_key",
             "lanes on Redis"),
        Need("kombu.transport.redis:GlobalKeyPrefixMixin", "_prefix_args", "lanes on Redis"),
        Need("kombu.transport.redis:QoS", "append restore_by_tag", "giving messages back"),
        Need("kombu.transport.redis:MultiChannelPoller", "eventflags get handle_event poller",
             "waking the worker"),
        Need("redis.connection:Connection",
             "_sock pack_commands read_response send_packed_command", "the sensor"),
        Need("redis.connection:Connection", "pack_command send_packed_command", "lanes on Redis"),
        Need("redis.connection:ConnectionPool", "get_connection", "the sensor"),
    ),
    "amqp": (
        Need("amqp.channel:Channel", "_callbacks send_method", "the sensor"),
        Need("amqp.channel:Channel", "_on_close basic_ack basic_cancel basic_reject",
             "lanes on RabbitMQ"),
        Need("amqp.spec:Basic", "Cancel Consume Qos", "lanes on RabbitMQ"),
        Need("amqp.spec:Queue", "Declare DeclareOk", "the sensor"),
    ),
}  # fmt: skip

BY_POOL = {
    "celery.concurrency.prefork": (
        Need("celery.concurrency.base:BasePool", "_pool", "the slots of prefork"),
        Need("celery.concurrency.asynpool:AsynPool", "_busy_workers _cache",
             "the slots of prefork"),
        Need("billiard.pool:ApplyResult", "_accepted _write_to ready", "the slots of prefork"),
        Need("billiard.process:BaseProcess", "_is_alive", "the slots of prefork"),
        Need("billiard.pool:Worker", "inqW_fd", "the slots of prefork"),
        Need("billiard.pool:Worker", "outqR_fd", "what begins as a worker stops"),
        Need("billiard.pool:Pool", "_result_handler", "what begins as a worker stops"),
        Need("celery.concurrency.asynpool:ResultHandler", "handle_event",
             "what begins as a worker stops"),
    ),
    "celery.concurrency.thread": (
        Need("celery.concurrency.thread:ApplyResult", "f", "the slots of threads"),
    ),
    "celery.concurrency.gevent": (
        Need("celery.concurrency.gevent:Timer", "_enter", "the tick under gevent"),
        Need("celery.concurrency.base:BasePool", "_pool", "the slots of gevent"),
        Need("gevent.pool:Pool", "size", "the slots of gevent"),
    ),
    "celery.concurrency.eventlet": (
        Need("celery.concurrency.eventlet:TaskPool", "_pool_map", "the slots of eventlet"),
    ),
}  # fmt: skip


def is_complete(driver_type: str, pool: Any) -> bool:
    """Whether all is there that a worker with this transport and pool leans on; says it if not."""
    absent = missing(needs(driver_type, pool))
    if absent:
        logger.warning(
            "celery-fair: the installed %s: %s. So this worker runs as plain Celery: tasks are "
            "routed by kind, and none gives way to another. Celery 5.5 to %s is known to work",
            versions(),
            "; ".join(absent),
            ".".join(map(str, NEWEST_RUN)),
        )
    elif celery_version() > NEWEST_RUN:
        logger.warning(
            "celery-fair: Celery %s is newer than what celery-fair was tested with (%s): all that "
            "it leans on is there, whether it means the same is not known",
            *(".".join(map(str, version)) for version in (celery_version(), NEWEST_RUN)),
        )
    return not absent


def needs(driver_type: str, pool: Any) -> Iterator[Need]:
    """What is leaned on with a transport and a pool."""
    yield from EVERYWHERE
    yield from BY_TRANSPORT.get(driver_type, ON_VIRTUAL)
    for base in type(pool).__mro__:
        yield from BY_POOL.get(base.__module__, ())


def missing(needed: Iterable[Need]) -> list[str]:
    """A sentence for each name that is not there."""
    return [
        f"{need.where} has no {name}, needed for {need.purpose}"
        for need in needed
        for name in need.names.split()
        if not _has(need.where, name)
    ]


def celery_version() -> tuple[int, ...]:
    import celery

    return tuple(celery.VERSION[:2])


def versions() -> str:
    import celery
    import kombu

    return f"Celery {celery.__version__} with kombu {kombu.__version__} is not what it leans on"


def _has(where: str, name: str) -> bool:
    module, _, path = where.partition(":")
    try:
        owner = import_module(module)
        for part in filter(None, path.split(".")):
            owner = getattr(owner, part)
    except (ImportError, AttributeError):
        return False
    return hasattr(owner, name) or _is_set_by_methods(owner, name)


def _is_set_by_methods(owner: Any, name: str) -> bool:
    """Whether it is an attribute that a class's methods set on their instances."""
    return any(
        instruction.opname == "STORE_ATTR" and instruction.argval == name
        for base in getattr(owner, "__mro__", ())
        for function in vars(base).values()
        if isinstance(function, FunctionType) and name in function.__code__.co_names
        for instruction in dis.get_instructions(function)
    )
