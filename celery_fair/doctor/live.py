"""What the workers' answers tell, given the app's own settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import celery_fair
from celery_fair.app import Fair
from celery_fair.doctor import finding as rules
from celery_fair.doctor.finding import Finding, named
from celery_fair.doctor.queues import GREENLETS, slow_greenlets
from celery_fair.policy.kinds import KINDS
from celery_fair.settings import FairSettings


@dataclass(frozen=True, slots=True)
class Replies:
    """By node: reports of ``fair_status``, names of the queues consumed, ``inspect stats``."""

    reports: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, frozenset[str]]
    stats: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def live_findings(fair: Fair, replies: Replies) -> list[Finding]:
    """Compare the workers with the app and with each other."""
    return [
        *_not_consumed(fair, replies),
        *_plain_workers(fair, replies),
        *_settings(replies.reports),
        *_versions(replies.reports),
        *_greenlets(replies.stats),
    ]


def _not_consumed(fair: Fair, replies: Replies) -> Iterator[Finding]:
    consumed = {queue for queues in replies.queues.values() for queue in queues}
    for kind in KINDS:
        missing = [queue for queue in fair.queues[kind] if queue not in consumed]
        if missing:
            yield rules.NOT_CONSUMED.finding(
                f"No worker consumes {named(missing)} ({kind})",
                "What is sent there waits for ever.",
                "Start a worker for it: add it to -Q, take it out of -X, or restart workers that "
                "are older than the queue; `celery control add_consumer` does it at once.",
                missing,
            )


def _plain_workers(fair: Fair, replies: Replies) -> Iterator[Finding]:
    ours = {queue for kind in KINDS for queue in fair.queues[kind]}
    plain = {
        node: sorted(queues & ours)
        for node, queues in replies.queues.items()
        if node not in replies.reports and queues & ours
    }
    if plain:
        taken = sorted({queue for queues in plain.values() for queue in queues})
        yield rules.PLAIN_WORKER.finding(
            f"{named(plain)}: without celery-fair, consuming {named(taken)}",
            "What such a worker prefetches waits behind whatever it runs, of either kind.",
            "Restart it with the app that has a Fair (and with `enabled` true).",
            plain,
        )


def _settings(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """A reply names the settings that were set; one that is missing has its default."""
    defaults = {name: field.default for name, field in FairSettings.model_fields.items()}
    names = sorted({name for report in reports.values() for name in report["settings"]})
    differing: dict[str, str] = {}
    for name in names:
        values = {
            node: report["settings"].get(name, defaults.get(name))
            for node, report in reports.items()
        }
        if len({repr(value) for value in values.values()}) > 1:
            differing[name] = ", ".join(f"{value!r} on {node}" for node, value in values.items())
    if differing:
        yield rules.DIFFERENT_SETTINGS.finding(
            "; ".join(f"{name} is {values}" for name, values in differing.items()),
            "Guarantees that are meant for all of them together hold for none.",
            "Give them the same configuration, and restart those that still have the old one.",
            reports,
        )


def _versions(reports: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    versions = {node: str(report["version"]) for node, report in reports.items()}
    if set(versions.values()) - {celery_fair.__version__}:
        by_node = ", ".join(f"{version} on {node}" for node, version in versions.items())
        yield rules.DIFFERENT_VERSIONS.finding(
            f"celery-fair is {by_node}, and {celery_fair.__version__} here",
            "Older workers may not know what newer publishers and workers say.",
            "Finish the upgrade: workers first, publishers after them.",
            versions,
        )


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
