"""What a job was submitted as; it never changes afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: Chunks aim at this duration, in seconds: about as long as an interactive task may have to wait.
CHUNK_SECONDS: Final = 1.0

#: Chunk messages of a job that are published and not done; what runs at once is at most as many.
BACKLOG: Final = 64

#: Items that are stored ahead of those that are done; a producer waits for room.
AHEAD: Final = 10_000

#: How long a job is kept after the last that happened to it, in seconds: a week.
KEEP_SECONDS: Final = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A job as it was submitted; all of it can be written as JSON."""

    id: str
    task: str
    """The name of the job task."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of each chunk's publish: kind, queue, tenant, request_id, time limits, …"""
    total: int | None = None
    """How many items there will be, where the producer knows it beforehand."""
    chunk_items: int | None = None
    """Items of a chunk; None to aim at ``chunk_seconds``."""
    chunk_seconds: float = CHUNK_SECONDS
    backlog: int = BACKLOG
    ahead: int = AHEAD
    results: bool = False
    """Whether the results of items are kept, for `Job.results`."""
    max_failures: int | float | None = None
    """The job pauses at more failed items than this: a number, or a part of those finished."""
    progress_seconds: float = 10.0
    """``on_progress`` is called no more often than this."""
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Signatures (as dicts) to publish on "progress", "finish" and "failures"."""
    keep_seconds: float = KEEP_SECONDS
