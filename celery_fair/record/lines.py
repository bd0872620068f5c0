"""What is recorded of a task that has had a slot, and how it is written; never arguments."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from celery_fair.headers import NAME, FairHeader
from celery_fair.observe.endings import SUCCEEDED, YIELDED
from celery_fair.policy.kinds import Kind
from celery_fair.worker import internals

if TYPE_CHECKING:
    from celery_fair.worker.slots import Slot

LONGEST_NAME: Final = 256


class Recorded(NamedTuple):
    """One run of a task; ``at`` is when it could first run, in epoch seconds."""

    at: float
    kind: Kind
    seconds: float
    task: str
    waited: float
    outcome: str | None
    digest: int
    """Of its id: which tasks are in a sample, and which runs are parts of one."""
    tenant: str | None
    attempt: int
    part: int
    """How often it had yielded before this run."""
    first: float
    """When it was first published, which all parts of a task have."""
    by_receipt: bool
    """Its message doesn't say when it was published."""


def digest_of(id: Any) -> int:
    """A number of 32 bits, the same in all workers."""
    return crc32(str(id).encode(errors="replace"))


def recorded(slot: Slot, digest: int, to_epoch: float) -> Recorded:
    """Read a slot that has ended, while it still has its request."""
    request = slot.request
    headers = internals.message_of(request).headers or {}
    line = headers.get(NAME)
    started = slot.started_at + to_epoch
    ready_at = slot.ready_at if line is not None else None
    # A publisher whose clock is ahead has published it when it was started, at the latest.
    at = min(slot.received_at + to_epoch if ready_at is None else ready_at, started)
    more = type(line) is str and "{" in line
    header = FairHeader.read(headers) if more or slot.outcome == YIELDED else None
    return Recorded(
        at,
        slot.kind,
        max(slot.finished_at - slot.started_at, 0.0),
        request.task.name[:LONGEST_NAME],
        started - at,
        slot.outcome,
        digest,
        header.tenant if header is not None else None,
        headers.get("retries") or 0,
        header.yields if header is not None else 0,
        header.first_published if header is not None else at,
        line is None,
    )


def line_of(run: Recorded, uses: Sequence[str]) -> str:
    """Write a line, with its end; what says nothing is left out."""
    fields: dict[str, Any] = {
        "at": round(run.at, 4),
        "kind": run.kind,
        "seconds": round(run.seconds, 5),
        "waited": round(run.waited, 4),
        "task": run.task,
        "id": run.digest,
    }
    if run.tenant is not None:
        fields["tenant"] = run.tenant
    if uses:
        fields["uses"] = list(uses)
    if run.outcome != SUCCEEDED:
        fields["outcome"] = run.outcome
    if run.attempt:
        fields["attempt"] = run.attempt
    if run.part or run.outcome == YIELDED:
        fields |= {"part": run.part, "first": round(run.first, 6)}
    if run.by_receipt:
        fields["by"] = "receipt"
    return json.dumps(fields, separators=(",", ":")) + "\n"


def batch_of(note: dict[str, Any], lines: Iterable[str]) -> bytes:
    """Put lines together that are written at once, behind a note on them."""
    head = json.dumps({"trace": note}, separators=(",", ":"))
    return (head + "\n" + "".join(lines)).encode()
