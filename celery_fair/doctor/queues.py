"""Queues and pools that a transport serves in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.policy.kinds import KINDS

GREENLETS = ("gevent", "eventlet")

KEPT_QUEUE: Final = rule(
    "F005",
    "info",
    "a queue that must not lose its consumer",
    why="Such a queue would vanish or change hands without its consumer, so a shut lane goes on "
    "holding one of its messages.",
    cure="Nothing to do if one task too many is no harm; else use an ordinary queue.",
)
SLOW_GREENLETS: Final = rule(
    "F006",
    "warning",
    "gevent or eventlet on RabbitMQ with heartbeats",
    why="Celery's own loop then takes about ten messages a second, with celery-fair or without.",
    cure="Set broker_heartbeat=0 for these workers, or use the prefork or threads pool.",
)


def driver_type(app: Any) -> str:
    """kombu's word for the broker's family, without connecting; empty for an unknown transport."""
    try:
        return str(app.connection_for_read().transport.driver_type)
    except (ImportError, KeyError, AttributeError, ValueError):  # no client, no such one, no URL
        return ""


def lane_queues(fair: Fair) -> dict[str, Any]:
    """Our queues as the app declares them (``kombu.Queue``), by name."""
    queues = fair.app.amqp.queues
    return {name: queues[name] for kind in KINDS for name in fair.queues[kind] if name in queues}


def queue_findings(fair: Fair) -> Iterator[Finding]:
    if driver_type(fair.app) != "amqp":
        return
    # The worker's own rule, imported late: a publisher has no use for the worker package.
    from celery_fair.worker.amqp_windows import is_kept

    kept = [name for name, queue in lane_queues(fair).items() if is_kept(queue)]
    if kept:
        yield KEPT_QUEUE.finding(
            f"{named(kept)}: declared with auto_delete, an expiry or a single active consumer",
            kept,
        )
    conf = fair.app.conf
    if conf.worker_pool in GREENLETS and conf.broker_heartbeat:
        yield slow_greenlets(conf.worker_pool, conf.broker_heartbeat)


def slow_greenlets(pool: str, heartbeat: float, nodes: tuple[str, ...] = ()) -> Finding:
    """Celery drains its event connection after each message, 0.1 s each, to see heartbeats."""
    where = f" ({named(nodes)})" if nodes else ""
    return SLOW_GREENLETS.finding(
        f"the {pool} pool on RabbitMQ with heartbeats of {heartbeat:g} s{where}", nodes
    )
