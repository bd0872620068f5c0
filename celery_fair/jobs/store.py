"""What keeps jobs: a small interface, and the promises that every implementation makes.

Each method is one step: it happens whole or not at all, whatever else happens at the same time.
Times are the store's own clock, so that workers' clocks needn't agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from celery_fair.jobs.plan import Plan
from celery_fair.jobs.progress import Failure, Progress


class Claim(NamedTuple):
    """Items that one chunk works on, and nobody else until its lease ends."""

    job: str
    ticket: str
    token: str
    """Of this claim alone: after its lease has ended, another has the items and another token."""
    first: int
    """The index of the first item; they follow one another."""
    items: Sequence[str]
    """As JSON."""
    attempt: int
    """How often a worker died with these items before."""
    item_seconds: float | None
    """What an item took lately; None if nobody knows yet."""
    plan: Plan


class Nothing(NamedTuple):
    """Why a chunk has nothing to do; its ticket has ended."""

    reason: Literal["no items", "paused", "cancelled", "ended", "surplus", "unknown"]


@dataclass(frozen=True, slots=True)
class Failed:
    """One item that failed, as a chunk reports it; text is cut to what the store keeps."""

    index: int
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What has become of the first ``count`` items that a claim still has."""

    count: int
    failed: Sequence[Failed] = ()
    results: Mapping[int, str] = field(default_factory=dict)
    """By index, as JSON; only of plans that keep results."""
    seconds: float = 0.0
    """How long they ran; for the measured time per item."""


class Reported(NamedTuple):
    """What follows from a report."""

    counted: bool
    """False: the claim is lost, so this counted nothing, and whoever ran it stops."""
    next_ticket: str | None = None
    """Publish it: the store counts on it."""
    stop: bool = False
    """The job is paused or cancelled: leave the rest."""
    calls: Sequence[str] = ()
    """Callbacks due ("progress", "finish", "failures"): publish, then say `JobStore.called`."""


class Appended(NamedTuple):
    """What an append has come to."""

    submitted: int
    """Items that the job has now: where the producer goes on."""
    room: int
    """How many more may be appended now."""
    stop: bool
    """The job was cancelled: no more is wanted."""


class Overdue(NamedTuple):
    """What is to be published again, since nobody was heard of it for too long."""

    job: str
    tickets: Sequence[str]
    calls: Sequence[str]


class JobStore(Protocol):
    """Where jobs are kept. Raises `StateAway` where it can't be asked now."""

    def create(self, plan: Plan) -> bool:
        """Keep a new job; False if one of that id is there, which stays as it is.

        Raises `JobConflict` where that one is of another task.
        """

    def append(self, job: str, first: int, items: Sequence[str]) -> Appended:
        """Add items as JSON, the first of them under index ``first``.

        Those that are there already are left out, so that a producer may repeat itself; a gap is
        refused, nothing is added, and ``submitted`` says where to go on.
        """

    def close(self, job: str, total: int) -> Sequence[str]:
        """The producer is done: there are ``total`` items. Returns callbacks that are due.

        Raises `JobConflict` for fewer than were appended.
        """

    def grant(self, job: str, tickets: Sequence[str]) -> Sequence[str]:
        """Return those of these new tickets that there is work and room for: publish them."""

    def claim(self, job: str, ticket: str, lease_seconds: float) -> Claim | Nothing:
        """Claim items for a chunk; the same ticket delivered twice has the items of one."""

    def renew(self, claim: Claim, lease_seconds: float) -> bool:
        """Say that a claim is worked on; False if it is lost."""

    def report(
        self,
        claim: Claim,
        report: Report,
        *,
        size: int,
        ends: bool,
        next_ticket: str | None = None,
        yielded: bool = False,
    ) -> Reported:
        """Count the first items of a claim; the only place where anything is counted.

        ``size`` is how many items the next chunk should have. A claim that ``ends`` gives back what
        it has left, to be claimed before all else; its ticket ends too, and ``next_ticket`` takes
        its place if there is work for it. One that doesn't end keeps the rest, and its ticket.
        """

    def overdue(self, limit: int) -> Sequence[Overdue]:
        """Take back what dead workers had claimed; return what is to be published again.

        Items that went down with their worker are claimed again in halves, until the one that
        kills it is alone; that one fails at its third time.
        """

    def called(self, job: str, call: str) -> None:
        """A callback has been published."""

    def pause(self, job: str, reason: str) -> bool:
        """Let no more start; False if it has ended. The others below are alike."""

    def resume(self, job: str) -> bool:
        """Go on; failures are counted anew against the threshold."""

    def cancel(self, job: str, reason: str) -> bool:
        """End it, and drop what was not started."""

    def retry_failed(self, job: str) -> int:
        """Make the failed items due again; return how many."""

    def plan(self, job: str) -> Plan:
        """Return what was submitted; raises `JobNotFound`."""

    def progress(self, job: str) -> Progress:
        """Return how far it is; raises `JobNotFound`."""

    def list(self, start: int = 0, count: int = 50) -> Sequence[Progress]:
        """Return jobs, the newest first."""

    def failures(self, job: str, start: int = 0, count: int = 100) -> Sequence[Failure]:
        """Return failed items, by index; ``start`` counts failures."""

    def results(self, job: str, start: int = 0, count: int = 100) -> Mapping[int, str]:
        """Return kept results as JSON, of the items with index ``start`` to ``start + count``."""

    def forget(self, job: str) -> None:
        """Drop an ended job, before its time."""
