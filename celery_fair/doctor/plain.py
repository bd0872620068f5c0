"""What Celery's own machinery does to workers, those without lanes first of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery_fair.app import Fair
from celery_fair.doctor.consumers import plain_workers
from celery_fair.doctor.finding import Finding, named
from celery_fair.doctor.options import NARROWED, narrowed
from celery_fair.doctor.queues import GREENLETS, slow_greenlets
from celery_fair.doctor.replies import Replies


def celery_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    yield from _greenlets(replies.stats)
    yield from _narrowed(fair, replies)


def _greenlets(stats: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    slow: dict[tuple[str, float], list[str]] = {}
    for node, said in stats.items():
        broker, pool = said.get("broker") or {}, _pool(said)
        greenlets = next((name for name in GREENLETS if pool == name), None)
        heartbeat = broker.get("heartbeat")
        if greenlets and heartbeat and str(broker.get("transport", "")).startswith("amqp"):
            slow.setdefault((greenlets, float(heartbeat)), []).append(node)
    for (pool_name, heartbeat), nodes in slow.items():
        yield slow_greenlets(pool_name, heartbeat, tuple(nodes))


def _pool(said: Mapping[str, Any]) -> str:
    """``threads`` of ``celery.concurrency.thread:TaskPool``."""
    module = str((said.get("pool") or {}).get("implementation", "")).partition(":")[0]
    name = module.rpartition(".")[2]
    return "threads" if name == "thread" else name


def _narrowed(fair: Fair, replies: Replies) -> Iterator[Finding]:
    """By the configuration of this app, which is the workers' as a rule."""
    found: dict[str, list[str]] = {}
    observing = [node for node, r in replies.reports.items() if r["mode"] == "observe"]
    for node in (*plain_workers(fair, replies), *observing):
        said = replies.stats.get(node, {})
        threads, autoscaled = _pool(said) == "threads", bool(said.get("autoscaler"))
        for what in narrowed(fair.app, threads=threads, autoscaled=autoscaled):
            found.setdefault(what, []).append(node)
    if found:
        nodes = dict.fromkeys(node for listed in found.values() for node in listed)
        yield NARROWED.finding(
            "; ".join(f"{what} ({named(listed)})" for what, listed in found.items()), nodes
        )
