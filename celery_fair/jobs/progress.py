"""What can be asked of a job, as data; `docs/jobs.md` lists the fields."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NamedTuple

JobState = Literal["running", "paused", "cancelled", "finished", "finished with failures"]

RUNNING: Final = "running"
PAUSED: Final = "paused"
CANCELLED: Final = "cancelled"
FINISHED: Final = "finished"
FINISHED_WITH_FAILURES: Final = "finished with failures"

#: A producer gives a sign every few seconds, also while it waits for room.
PRODUCER_SILENT_SECONDS: Final = 120.0

#: States in which nothing of a job runs any more; only ``retry_failed`` leads out of them.
ENDED: Final = frozenset({CANCELLED, FINISHED, FINISHED_WITH_FAILURES})


@dataclass(frozen=True, slots=True)
class Failure:
    """The latest failure of one item."""

    index: int
    item: object
    error: str
    """The exception's class."""
    message: str
    times: int
    at: float
    """Epoch seconds."""


class Band(NamedTuple):
    """An estimate in seconds, as from and to."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is; times are epoch seconds of the store's clock."""

    id: str
    task: str
    kind: str
    state: JobState
    reason: str | None
    """Why it is paused or cancelled, and by whom."""
    submitted: int
    """Items so far; the total once ``submitting`` is False."""
    total: int | None
    """None where the producer has not said, and is not done."""
    submitting: bool
    done: int
    """Items that succeeded."""
    failed: int
    """Items whose latest attempt failed."""
    running: int
    """Items in chunks that run now."""
    rate: float | None
    """Finished items a second lately; None before the first."""
    eta: Band | None
    """Seconds until all are finished; None where it can't be known."""
    chunk_items: int | None
    """Items of the next chunk."""
    created_at: float
    first_at: float | None
    """When the first item finished."""
    last_at: float
    """The last sign of the job: an item finished, or items came, or somebody changed it."""
    producer_at: float | None
    """The last sign of the producer while ``submitting``."""
    asked_at: float
    """When this was asked: ages are differences to it, and to no other clock."""
    yields: int = 0
    """How often a chunk gave its slot back before its end."""
    lost: int = 0
    """Chunks whose worker was not heard of again."""

    @property
    def is_producer_silent(self) -> bool:
        """Whether the items may never become complete unless somebody submits them again."""
        if not self.submitting or self.state in ENDED:
            return False
        return self.asked_at - (self.producer_at or self.created_at) > PRODUCER_SILENT_SECONDS

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON has it; ``eta`` is None, or has ``low`` and ``high``."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**found, "eta": None if self.eta is None else self.eta._asdict()}
