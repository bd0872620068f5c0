"""Workers that know of fewer shards than tasks are sent to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, named, rule
from celery_fair.doctor.replies import Replies
from celery_fair.policy.hands import MOST_SHARDS
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.sharding.names import is_shard, shards_of

FEWER_SHARDS: Final = rule(
    "F135",
    "error",
    "workers with fewer shards than publishers",
    why="What is sent to a shard that no worker knows waits there for ever.",
    cure="A larger number goes to the workers first, a smaller one to them last.",
)


def shard_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    for kind, here in fair.settings.shards.items():
        known = {
            node: report["settings"].get(f"{kind}_shards", 1)
            for node, report in replies.reports.items()
            if fair.queues[kind][0] in report["kinds"][kind]["queues"]
        }
        if known and max(known.values()) < here:
            most = max(known.values())
            yield FEWER_SHARDS.finding(
                f"{kind}_shards is {here} here, and {most} at the most on {named(sorted(known))}",
                known,
                cure=f"Set {kind}_shards to {here} on the workers and restart them, and publishers "
                "after them; what waits by then is taken at once.",
            )


def every_shard(fair: Fair, kind: Kind) -> list[str]:
    """The shards that a kind may have had under other settings: something may be left in them."""
    return list(shards_of(fair.queues[kind][0], MOST_SHARDS))


def cure_of(fair: Fair, left: list[str]) -> str:
    """What to do about messages in shards that nobody consumes."""
    kinds = [kind for kind in KINDS if set(left) & set(every_shard(fair, kind))]
    number = max(int(queue[-2:]) for queue in left if is_shard(queue)) + 1
    settings = named(f"{kind}_shards" for kind in kinds) or "the number of shards"
    return f"Have the workers know {number} of {settings} until they are empty, then fewer."
