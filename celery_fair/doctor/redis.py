"""The Redis of the broker, and that of the state: whether they keep what they are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery_fair.app import Fair
from celery_fair.doctor.finding import Finding, rule
from celery_fair.doctor.replies import Replies
from celery_fair.doctor.tasks import needs_state

EVICTS: Final = rule(
    "F120",
    "error",
    "a Redis that may evict messages",
    why="When it is full it deletes keys to make room, and a queue is a key: all that waits in it "
    "is gone, without an error anywhere.",
    cure="CONFIG SET maxmemory-policy noeviction, and in its configuration; keep caches in another "
    "Redis.",
)
NEARLY_FULL: Final = rule(
    "F121",
    "warning",
    "a Redis that is nearly full",
    why="With noeviction a full Redis refuses every publish and every result, and workers can't "
    "note what they have taken.",
    cure="Raise maxmemory, shorten result_expires, or limit the backlog (batch_max_backlog).",
)
NOT_SAVED: Final = rule(
    "F122",
    "info",
    "a Redis that saves nothing",
    why="Neither snapshots nor the append-only file are on: a restart loses all that waits.",
    cure="Set appendonly yes, unless losing the queues is no harm.",
)
UNFIT: Final = rule(
    "F123",
    "error",
    "a Redis that kombu can't use as a broker",
    why="kombu asks for several keys in one command, which a cluster refuses, and brings back what "
    "dead workers held by a command that Redis has since 6.2 (kombu 5.7).",
    cure="Use one Redis of 6.2 or newer, with Sentinel if it must fail over.",
)
CLOSES_IDLE: Final = rule(
    "F130",
    "warning",
    "a Redis that closes idle connections, with an older kombu",
    why="Before kombu 5.7 a worker whose gate is shut spins on the closed socket until it opens.",
    cure="Upgrade kombu to 5.7, or CONFIG SET timeout 0.",
)
EVICTS_STATE: Final = rule(
    "F131",
    "error",
    "a Redis that may evict jobs",
    why="All that is kept of jobs, and of requests that are deduplicated, expires one day, so a "
    "full Redis with a volatile policy drops it first: a job would lose items or its counts.",
    cure="CONFIG SET maxmemory-policy noeviction, and in its configuration; or another Redis as "
    "state_url.",
)

#: Of ``maxmemory``.
FULL_PART: Final = 0.8

#: The first with ZRANGE … BYSCORE REV, which kombu 5.7's ``QoS.restore_visible`` sends.
OLDEST: Final = (6, 2)


def redis_findings(fair: Fair, replies: Replies) -> Iterator[Finding]:
    yield from _of_state(fair, replies)
    info = replies.redis
    if info is None:
        return
    yield from _memory(info)
    if info.get("saves") is False:
        yield NOT_SAVED.finding("The broker's Redis saves nothing to disk")
    if info.get("timeout") and _kombu() < (5, 7):
        yield CLOSES_IDLE.finding(f"Redis closes what is idle for {info['timeout']} s")
    if info.get("redis_mode") == "cluster":
        yield UNFIT.finding("The broker is a node of a Redis cluster")
    version = str(info.get("redis_version", ""))
    if version and _numbers(version) < OLDEST and _kombu() >= (5, 7):
        yield UNFIT.finding(f"The broker is Redis {version}")


def _of_state(fair: Fair, replies: Replies) -> Iterator[Finding]:
    info, broker = replies.state, replies.redis
    if info is None:
        return
    policy = str(info.get("maxmemory_policy", "noeviction"))
    is_broker = broker is not None and broker.get("run_id") == info.get("run_id")
    if policy == "noeviction" or (is_broker and policy.startswith("allkeys")):  # which is F120
        return
    what = " and ".join(needs_state(fair))
    is_lost = "jobs" in needs_state(fair) and int(info.get("maxmemory") or 0)
    yield EVICTS_STATE.finding(
        f"maxmemory-policy is {policy} where {what} have their state",
        severity="error" if is_lost else "warning",
    )


def _memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    policy, most = str(info.get("maxmemory_policy", "noeviction")), int(info.get("maxmemory") or 0)
    used = int(info.get("used_memory") or 0)
    if policy.startswith("allkeys"):
        limit = f"{_size(used)} of {_size(most)} are used" if most else "no maxmemory is set yet"
        yield EVICTS.finding(
            f"maxmemory-policy is {policy} ({limit})", severity="error" if most else "warning"
        )
    if most and used > FULL_PART * most:
        yield NEARLY_FULL.finding(f"The broker's Redis uses {_size(used)} of {_size(most)}")


def _size(number: int) -> str:
    return f"{number / 2**20:.0f} MB" if number >= 2**20 else f"{number / 2**10:.0f} kB"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _kombu() -> tuple[int, ...]:
    import kombu

    return tuple(kombu.VERSION[:2])
