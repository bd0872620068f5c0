"""Who consumes which queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies
from celery_fair.policy.kinds import KINDS

NOT_CONSUMED: Final = rule(
    "F103",
    "error",
    "a queue of a kind that nobody consumes",
    why="What is sent there waits for ever.",
    cure="Start a worker for it: add it to -Q, take it out of -X, or restart workers that are "
    "older than the queue; `celery control add_consumer` does it at once.",
)
PLAIN_WORKER: Final = rule(
    "F104",
    "warning",
    "a worker without celery-fair takes from our queues",
    why="What such a worker prefetches waits behind whatever it runs, of either kind.",
    cure="Restart it with the app that has a Fair (and with `enabled` true).",
)


def consumer_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    yield from _not_consumed(fair, replies)
    yield from _plain_workers(fair, replies)


def plain_workers(fair: Fair, replies: Replies) -> dict[str, list[str]]:
    """Queues of ours by the workers that have no celery-fair and consume them."""
    ours = {queue for kind in KINDS for queue in fair.queues[kind]}
    return {
        node: sorted(queues & ours)
        for node, queues in replies.queues.items()
        if queues & ours and node not in replies.reports and node not in replies.unheard
    }


def _not_consumed(fair: Fair, replies: Replies) -> Iterator[Finding]:
    for kind in KINDS:
        missing = [queue for queue in fair.queues[kind] if queue not in replies.consumed]
        if missing:
            waiting = sum(replies.waiting.get(queue, 0) for queue in missing)
            left = f", where {waiting} wait" if waiting else ""
            yield NOT_CONSUMED.finding(
                f"No worker consumes {named(missing)} ({kind}){left}", missing
            )


def _plain_workers(fair: Fair, replies: Replies) -> Iterator[Finding]:
    plain = plain_workers(fair, replies)
    if plain:
        taken = sorted({queue for queues in plain.values() for queue in queues})
        yield PLAIN_WORKER.finding(
            f"{named(plain)}: without celery-fair, consuming {named(taken)}", plain
        )
