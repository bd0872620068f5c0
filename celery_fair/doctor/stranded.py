"""Messages where nobody takes them from, and queues that two workers understand differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.beat import entries
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.queues import driver_type
from celery_fair.doctor.replies import Replies
from celery_fair.doctor.shards import cure_of, every_shard
from celery_fair.doctor.tasks import own_tasks, queue_of
from celery_fair.front import behind, front_of, is_front, may_have_front
from celery_fair.policy.kinds import KINDS
from celery_fair.sharding.names import is_shard

STRANDED: Final = rule(
    "F118",
    "error",
    "messages wait in a queue that nobody consumes",
    why="They wait for ever, or until somebody consumes it.",
    cure="`celery control add_consumer QUEUE` does it at once, -Q for good; what is not to be run "
    "any more goes with `celery purge -Q QUEUE`.",
)
TWO_KINDS: Final = rule(
    "F119",
    "error",
    "a queue that is interactive on one worker and batch on another",
    why="Whether its tasks give way depends on the worker that happens to take them.",
    cure="Give all workers and publishers the same `queues`.",
)

#: No more queues are counted, whatever an app names.
MOST: Final = 500


def known_queues(fair: Fair) -> list[str]:
    """The queues that this app sends to or declares, each with its front where it may have one."""
    app = fair.app
    declared = app.amqp.queues
    said = [queue_of(fair, name, task) for name, task in own_tasks(app).items()]
    said += [getattr(queue := entry.options.get("queue"), "name", queue) for entry in entries(fair)]
    names = [*(queue for kind in KINDS for queue in fair.queues[kind]), *declared, *said]
    # RabbitMQ is asked for each by itself, so there only while there are shards.
    cheap = driver_type(app) != "amqp"
    for kind, shards in fair.settings.shards.items():
        names += every_shard(fair, kind) if cheap or shards > 1 else ()
    queues = dict.fromkeys(
        name for name in names if isinstance(name, str) and not _is_made(fair, name)
    )
    fronts = [
        front_of(q) for q in queues if q in declared and may_have_front(declared[q], fair.is_part)
    ]
    return [*queues, *fronts][:MOST]


def _is_made(fair: Fair, name: str) -> bool:
    return is_front(name) and fair.is_part(name)


def stranded_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    lanes = {queue for kind in KINDS for queue in fair.queues[kind]}
    left = {
        queue: number
        for queue, number in replies.waiting.items()
        if number and queue not in replies.consumed and queue not in lanes
    }
    fronts = [queue for queue in left if _is_made(fair, queue)]
    if left:
        shown = named(f"{number} in {queue}" for queue, number in left.items())
        behind_them = named(behind(front) for front in fronts)
        cure = None
        if len(fronts) == len(left):
            cure = f"Start a worker with celery-fair on {behind_them}: it takes the front first."
        elif all(map(is_shard, left)):
            cure = cure_of(fair, list(left))
        yield STRANDED.finding(
            f"No worker that answers consumes what waits: {shown}", left, cure=cure
        )


def kind_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    served = {
        kind: {
            queue: node
            for node, r in replies.reports.items()
            for queue in r["kinds"][kind]["queues"]
        }
        for kind in KINDS
    }
    first, second = (served[kind] for kind in KINDS)
    both = sorted(first.keys() & second.keys())
    if both:
        shown = named(
            f"{queue} ({KINDS[0]} on {first[queue]}, {KINDS[1]} on {second[queue]})"
            for queue in both
        )
        yield TWO_KINDS.finding(f"Two kinds in one queue: {shown}", both)
