"""What the workers' answers tell, given the app's own settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.consumers import consumer_findings
from celery_fair.doctor.differences import difference_findings
from celery_fair.doctor.finding import Finding, rule
from celery_fair.doctor.queues import GREENLETS, slow_greenlets
from celery_fair.doctor.replies import Replies

UNREACHABLE: Final = rule(
    "F101",
    "error",
    "the broker can't be asked",
    why="What workers consume, and with which settings, was not checked.",
    cure="Run this where the broker can be reached, or with --no-broker.",
)
NO_WORKER: Final = rule(
    "F102",
    "warning",
    "no worker answers",
    why="What workers consume, and with which settings, was not checked.",
    cure="Start them and ask again; --timeout gives busy ones more time.",
)


def live_findings(fair: Fair, replies: Replies) -> list[Finding]:
    """Compare the workers with the app and with each other."""
    return [
        *consumer_findings(fair, replies),
        *difference_findings(replies),
        *_greenlets(replies.stats),
    ]


def _greenlets(stats: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    slow: dict[tuple[str, float], list[str]] = {}
    for node, said in stats.items():
        broker, pool = said.get("broker") or {}, said.get("pool") or {}
        implementation = str(pool.get("implementation", ""))
        greenlets = next((name for name in GREENLETS if f".{name}:" in implementation), None)
        heartbeat = broker.get("heartbeat")
        if greenlets and heartbeat and str(broker.get("transport", "")).startswith("amqp"):
            slow.setdefault((greenlets, float(heartbeat)), []).append(node)
    for (pool_name, heartbeat), nodes in slow.items():
        yield slow_greenlets(pool_name, heartbeat, tuple(nodes))
