"""One job in memory: what it has, and where each of its open items is.

Those are new (from ``next`` on), given back, to be retried, or claimed. Times are epoch seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from celery_fair.jobs import keeping
from celery_fair.jobs.counted import Counted
from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import CANCELLED, ENDED, PAUSED, RUNNING, JobState
from celery_fair.jobs.store import Nothing, Reported


class Piece(NamedTuple):
    """Items that were given back, and how often a worker was lost with them."""

    losses: int
    indices: list[int]


@dataclass
class Held:
    """A claim: what it has left, and until when it is believed to be worked on."""

    token: str
    piece: Piece
    until: float
    reported: int = 0
    """Items that it had and has not any more."""


@dataclass
class Waiting:
    """A ticket that nobody has claimed for yet."""

    due: float
    seconds: float = keeping.TICKET_SECONDS


@dataclass
class FailedItem:
    """What is kept of an item from its first failure until it succeeds."""

    item: str
    error: str
    message: str
    times: int
    at: float


@dataclass
class MemoryJob:
    """What `celery_fair.jobs.scripts` keep in Redis."""

    plan: Plan
    created_at: float
    state: JobState = RUNNING
    reason: str | None = None
    submitted: int = 0
    closed: bool = False
    next: int = 0
    done: int = 0
    yields: int = 0
    lost: int = 0
    size: int = 1
    item_seconds: float | None = None
    started_at: float | None = None
    """When work began, since it was started or resumed."""
    first_at: float | None = None
    last_at: float = 0.0
    producer_at: float = 0.0
    progress_called_at: float = 0.0
    touched_at: float = 0.0
    look_at: float = 0.0
    finished_since: int = 0
    failed_since: int = 0
    """The two of ``max_failures``: since it was started, or resumed, or failures are retried."""
    room_for_failures: int = keeping.KEPT_FAILURES
    items: dict[int, str] = field(default_factory=dict)
    back: list[Piece] = field(default_factory=list)
    retrying: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    failures: dict[int, FailedItem] = field(default_factory=dict)
    """Of ``failed``, and of what is tried again."""
    results: dict[int, str] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    claims: dict[str, Held] = field(default_factory=dict)
    answers: dict[str, tuple[float, Reported]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.last_at = self.producer_at = self.progress_called_at = self.created_at
        self.size = self.plan.chunk_items or 1

    @property
    def total(self) -> int | None:
        """How many items there will be, where that is known."""
        return self.submitted if self.closed else self.plan.total

    @property
    def left(self) -> int:
        """Items that are neither done nor failed."""
        return self.submitted - self.done - len(self.failed)

    @property
    def running(self) -> int:
        """Items that are claimed."""
        return sum(len(held.piece.indices) for held in self.claims.values())

    @property
    def room(self) -> int:
        """How many items may be appended now."""
        if self.closed or self.state in ENDED:
            return 0
        return max(self.plan.ahead - self.left, 0)

    @property
    def work(self) -> int:
        """Items that may be claimed."""
        given_back = sum(len(piece.indices) for piece in self.back)
        return self.submitted - self.next + given_back + len(self.retrying)

    @property
    def wanted(self) -> int:
        """Tickets that there is work and room for, beside those there are."""
        if self.state != RUNNING:
            return 0
        room = self.plan.backlog - len(self.waiting) - len(self.claims)
        return max(min(room, math.ceil(self.work / self.size) - len(self.waiting)), 0)

    @property
    def expires_at(self) -> float:
        """When it is forgotten, unless something happens until then."""
        more = 0.0 if self.state in ENDED else keeping.OPEN_SECONDS
        return self.touched_at + self.plan.keep_seconds + more

    @property
    def is_looked_after(self) -> bool:
        """Whether anything of it may become overdue."""
        return self.state == RUNNING or bool(self.claims or self.due)

    def look_soon(self, now: float) -> None:
        """Have it looked at now, and not before those that are late."""
        self.look_at = min(self.look_at, now)

    def grant(self, tickets: Iterable[str], now: float) -> list[str]:
        """Let those of them wait that there is work and room for, and say which."""
        granted = []
        for ticket in tickets:
            if ticket in self.waiting:
                granted.append(ticket)
            elif ticket not in self.claims and self.wanted:
                self.waiting[ticket] = Waiting(now + keeping.TICKET_SECONDS)
                granted.append(ticket)
        return granted

    def why_not(self, ticket: str) -> Nothing | None:
        """Why nothing can be claimed for a ticket that holds nothing; None if it can."""
        if self.state == CANCELLED:
            return Nothing("cancelled")
        if self.state in ENDED:
            return Nothing("ended")
        if self.state == PAUSED:
            return Nothing("paused")
        if ticket not in self.waiting:
            return Nothing("surplus")
        return None if self.work else Nothing("no items")

    def take_what_fits(self) -> Piece:
        """Items for a chunk, of which not too much text is sent; one item always fits."""
        losses, indices = self._take()
        room = keeping.CLAIM_CHARACTERS
        for place, index in enumerate(indices):
            room -= len(self.item(index))
            if room < 0 and place:
                self.give_back(Piece(losses, indices[place:]))
                return Piece(losses, indices[:place])
        return Piece(losses, indices)

    def _take(self) -> Piece:
        """What has lost its worker before, alone; else as many items as a chunk may have."""
        taken: list[int] = []
        while self.back and len(taken) < self.size:
            self.back.sort(key=lambda piece: piece.indices[0])
            losses, indices = self.back[0]
            if losses and taken:
                return Piece(0, taken)
            part, rest = indices[: self.size - len(taken)], indices[self.size - len(taken) :]
            self.back[:1] = [Piece(losses, rest)] if rest else []
            if losses:
                return Piece(losses, part)
            taken += part
        return self._take_retried(taken)

    def _take_retried(self, taken: list[int]) -> Piece:
        for index in sorted(self.retrying)[: self.size - len(taken)]:
            was_lost = self.failures[index].error == keeping.WORKER_LOST
            if was_lost and taken:
                return Piece(0, taken)
            self.retrying.remove(index)
            taken.append(index)
            if was_lost:
                return Piece(keeping.LOSSES - 1, taken)
        upto = min(self.submitted, self.next + self.size - len(taken))
        taken += range(self.next, upto)
        self.next = upto
        return Piece(0, taken)

    def item(self, index: int) -> str:
        """An open item, as JSON."""
        return self.items[index] if index in self.items else self.failures[index].item

    def give_back(self, piece: Piece) -> None:
        """Have items of a claim that is over claimed again, unless the job is cancelled."""
        if self.state != CANCELLED:
            if piece.indices:
                self.back.append(piece)
        elif not self.claims:
            self.items.clear()

    def counted(self) -> Counted:
        """What there is to tell of it."""
        return Counted(
            state=self.state,
            reason=self.reason,
            submitted=self.submitted,
            closed=self.closed,
            done=self.done,
            failed=len(self.failed),
            running=self.running,
            size=self.size,
            created_at=self.created_at,
            started_at=self.started_at,
            first_at=self.first_at,
            last_at=self.last_at,
            producer_at=self.producer_at,
            finished_since=self.finished_since,
            counts=dict(self.counts),
            yields=self.yields,
            lost=self.lost,
        )
