"""What a Redis answers of jobs, as values; and a plan as what it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from kombu.utils.json import dumps, loads

from celery_fair.jobs.counted import Counted
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.store import Due
from celery_fair.policy.job_pace import BUCKETS
from celery_fair.state import text_of


def as_fields(plan: Plan) -> Iterator[str]:
    """A plan as JSON, then what scripts need of it as fields and values."""
    yield dumps({one.name: getattr(plan, one.name) for one in fields(plan)})
    kept = {
        "task": plan.task,
        "total": "" if plan.total is None else plan.total,
        "chunk_items": plan.chunk_items or "",
        "size": plan.chunk_items or 1,
        "backlog": plan.backlog,
        "ahead": plan.ahead,
        "results": int(plan.results),
        "max_failures": "" if plan.max_failures is None else repr(plan.max_failures),
        "progress_every": round(plan.progress_seconds * 1000),
        "calls": f",{','.join(plan.calls)},",
        "keep": max(round(plan.keep_seconds * 1000), 1),
    }
    for name, value in kept.items():
        yield name
        yield str(value)


def plan_of(kept: bytes) -> Plan:
    """The plan in its JSON; what a newer version has added is left out."""
    known = {one.name for one in fields(Plan)}
    return Plan(**{name: value for name, value in loads(kept).items() if name in known})


def counted_of(record: Sequence[bytes]) -> Counted:
    """What is counted in a job's record, which comes as fields and values."""
    kept = dict(zip(map(text_of, record[::2]), map(text_of, record[1::2]), strict=True))
    return Counted(
        state=kept["state"],  # type: ignore[arg-type]
        reason=kept["reason"] or None,
        submitted=int(kept["submitted"]),
        closed=kept["closed"] == "1",
        done=int(kept["done"]),
        failed=int(kept["failed"]),
        running=int(kept["running"]),
        size=int(kept["size"]),
        created_at=int(kept["created"]) / 1000,
        started_at=_seconds(kept["started"]),
        first_at=_seconds(kept["first"]),
        last_at=int(kept["last"]) / 1000,
        producer_at=int(kept["producer"]) / 1000,
        finished_since=int(kept["finished_since"]),
        counts=dict(_counts(kept)),
        yields=int(kept["yields"]),
        lost=int(kept["lost"]),
    )


def _counts(kept: dict[str, str]) -> Iterator[tuple[int, int]]:
    for place in range(BUCKETS):
        number, _, count = kept.get(f"bucket{place}", "").partition(":")
        if count:
            yield int(number), int(count)


def _seconds(ms: str) -> float | None:
    return int(ms) / 1000 if ms else None


def ranges_of(text: bytes) -> list[int]:
    """The indices in ``first-last,first-last``."""
    indices: list[int] = []
    for one in text_of(text).split(","):
        first, last = one.split("-")
        indices += range(int(first), int(last) + 1)
    return indices


def dues_of(pairs: Sequence[Any]) -> list[Due]:
    """Callbacks, of names and numbers by turns."""
    return [Due(text_of(pairs[at]), int(pairs[at + 1])) for at in range(0, len(pairs), 2)]
