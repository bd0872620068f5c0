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
    indices: Sequence[int]
    """Of the items, in the order in which they are worked on; they may have gaps."""
    items: Sequence[str]
    """As JSON."""
    attempt: int
    """How often a worker died with these items before."""
    item_seconds: float | None
    """What an item took lately; None if nobody knows yet."""
    plan: Plan


class Nothing(NamedTuple):
    """Why a chunk has nothing to do: its ticket has ended, or another delivery works on it."""

    reason: Literal["no items", "paused", "cancelled", "ended", "surplus", "unknown"]


@dataclass(frozen=True, slots=True)
class Failed:
    """One item that failed, as a chunk reports it; text is cut to what the store keeps."""

    index: int
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What has become of the next ``count`` items of a claim."""

    after: int
    """How many of its items were reported before; so the same report twice counts once."""
    count: int
    failed: Sequence[Failed] = ()
    results: Mapping[int, str] = field(default_factory=dict)
    """By index, as JSON; only of plans that keep results."""
    seconds: float = 0.0
    """How long they ran; for the measured time per item."""


class Due(NamedTuple):
    """A callback to publish, then to be told to `JobStore.called`."""

    call: str
    """A name in ``plan.calls``: "progress", "finish" or "failures"."""
    number: int
    """The same for as long as it is due; a job may finish, or make progress, more than once."""


class Reported(NamedTuple):
    """What follows from a report."""

    counted: bool
    """False: the claim is lost, so this counted nothing, and whoever ran it stops."""
    next_ticket: str | None = None
    """Publish it: the store counts on it."""
    stop: bool = False
    """The job is paused or cancelled: leave the rest."""
    calls: Sequence[Due] = ()


class Appended(NamedTuple):
    """What an append has come to."""

    submitted: int
    """Items that the job has now: where the producer goes on."""
    room: int
    """How many more may be appended now; one that is full takes a part of what comes, or none."""
    stop: bool
    """The job was cancelled: no more is wanted."""


class Overdue(NamedTuple):
    """What is to be published again, since nobody was heard of it for too long."""

    job: str
    tickets: Sequence[str]
    calls: Sequence[Due]


class JobStore(Protocol):
    """Where jobs are kept. Raises `StateAway` where it can't be asked now."""

    def create(self, plan: Plan) -> bool:
        """Keep a new job; False if one of that id is there, which stays as it is.

        Raises `JobConflict` where that one is of another task.
        """

    def append(self, job: str, first: int, items: Sequence[str]) -> Appended:
        """Add items as JSON, the first of them under index ``first``.

        Those that are there already are left out, so that a producer may repeat itself; a gap is
        refused, nothing is added, and ``submitted`` says where to go on. With no items it only says
        that the producer lives. Raises `JobConflict` for more than the job was closed with.
        """

    def close(self, job: str, total: int) -> Sequence[Due]:
        """The producer is done: there are ``total`` items. Returns callbacks that are due.

        Raises `JobConflict` for other than as many as were appended.
        """

    def grant(self, job: str, tickets: Sequence[str]) -> Sequence[str]:
        """Return those of these new tickets that there is work and room for: publish them."""

    def claim(
        self, job: str, ticket: str, lease_seconds: float, *, token: str | None = None
    ) -> Claim | Nothing:
        """Claim items for a chunk; the same ticket delivered twice has the items of one.

        A delivery whose answer got lost may ask again with the same ``token``, which is its alone.
        """

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
        """Count the next items of a claim; the only place where what ran is counted.

        ``size`` is how many items the next chunk should have. A claim that ``ends`` gives back what
        it has left, to be claimed before all else; its ticket ends too, and ``next_ticket`` takes
        its place if there is work for it. One that doesn't end keeps the rest, and its ticket.
        A report may be repeated where its answer got lost, and then has the same answer.
        """

    def overdue(self, tasks: Sequence[str], limit: int = 100) -> Sequence[Overdue]:
        """Take back what dead workers had claimed; return what is to be published again.

        Of jobs of these ``tasks``, at most ``limit`` tickets of each; new ones too, where a job has
        more work than tickets (it was resumed, or its producer died before it granted them).

        Items that went down with their worker are claimed again in halves, until the one that
        kills it is alone; that one fails at its third time.
        """

    def called(self, job: str, due: Due) -> None:
        """A callback has been published; nothing happens if another of its name is due since."""

    def pause(self, job: str, reason: str) -> bool:
        """Let no more start; False if it has ended. A paused job keeps its first reason."""

    def resume(self, job: str) -> bool:
        """Go on; False if it has ended. Failures are counted anew against the threshold."""

    def cancel(self, job: str, reason: str) -> bool:
        """End it, and drop what was not started; False if it has ended."""

    def retry_failed(self, job: str) -> int:
        """Make the failed items due again, of a cancelled job none; return how many.

        How often each has failed stays known. A paused job stays paused.
        """

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
        """Drop an ended job, before its time; raises `JobConflict` where it has not ended."""
