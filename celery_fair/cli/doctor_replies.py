"""What ``fair doctor`` asks the workers and the broker, and what their answers come to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from celery_fair.app import Fair
from celery_fair.cli.overview import Answers
from celery_fair.cli.remote import NoRemoteControl, Refused, Unreachable, ask, broker_url
from celery_fair.doctor import Finding, Replies, live_findings
from celery_fair.doctor.asking import ask_broker
from celery_fair.doctor.live import NO_WORKER, UNREACHABLE
from celery_fair.doctor.redis import redis_findings
from celery_fair.errors import SettingsError


def cluster_findings(app: Any, timeout_seconds: float) -> list[Finding]:
    """Ask the workers; what keeps them from being asked is itself a finding."""
    fair = _active(app)
    if fair is None:
        return []
    try:
        replies = _ask_all(fair, timeout_seconds)
        if replies.is_answered:
            return live_findings(fair, replies)
        where = f"within {timeout_seconds:g} s on {broker_url(app)}"
        waiting = sum(replies.waiting.values())
        left = f"; messages that wait there: {waiting}" if waiting else ""
        unasked = NO_WORKER.finding(f"No worker answered {where}{left}")
        return [unasked, *redis_findings(fair, replies)]
    except Refused as error:
        asked = Replies({}, {}, **ask_broker(fair)._asdict())
        unasked = UNREACHABLE.finding(error.message, cure="Make room in it, or give rights.")
        return [unasked, *redis_findings(fair, asked)]
    except (Unreachable, NoRemoteControl) as error:
        return [UNREACHABLE.finding(error.message.rstrip("."))]


def _active(app: Any) -> Fair | None:
    """The app's Fair if it can work; if it can't, the static findings say why."""
    fair = Fair.of(app)
    try:
        return fair if fair is not None and fair.settings.enabled and fair.queues else None
    except SettingsError:
        return None


def _ask_all(fair: Fair, timeout_seconds: float) -> Replies:
    """All that the live checks need to know; without queues if no worker answers."""
    app = fair.app
    answers = Answers.of(ask(app, "fair_status", timeout_seconds=timeout_seconds))
    number = len(answers.reports) + len(answers.silent)
    if not number:
        return Replies({}, {}, **ask_broker(fair)._asdict())
    queues, stats = (
        ask(app, command, timeout_seconds=timeout_seconds, limit=number)
        for command in ("active_queues", "stats")
    )
    asked_at = time.time()
    checkups = ask(app, "fair_checkup", timeout_seconds=timeout_seconds, limit=number)
    return Replies(
        answers.reports,
        {node: _names(reply) for node, reply in queues.items()},
        {node: reply for node, reply in stats.items() if isinstance(reply, dict)},
        {
            node: said
            for node, said in checkups.items()
            if isinstance(said, dict) and "time" in said
        },
        (asked_at, time.time()),
        frozenset(queues.keys() - answers.reports.keys() - answers.silent.keys()),
        **ask_broker(fair, parents=_may_wait(checkups))._asdict(),
    )


def _may_wait(checkups: Mapping[str, Any]) -> bool:
    """Whether any task has run for a while: it may be the parent of what waits."""
    return any(isinstance(said, dict) and said.get("running") for said in checkups.values())


def _names(reply: Any) -> frozenset[str]:
    """The names in a reply to ``active_queues``; a worker that doesn't answer has none."""
    return frozenset(queue["name"] for queue in reply) if isinstance(reply, list) else frozenset()
