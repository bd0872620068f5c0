"""What shares resources among all workers: a small interface, and what every one of them promises.

Each method is one step: it happens whole or not at all, whatever else happens at the same time.
Times are the store's own, and it survives a jump of its clock: no lease ends early by more than one
look, none lives on for ever. A store that can't be asked raises `StateAway`, within its timeout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from celery_fair.policy.kinds import Kind

#: After this time without a renewal the places of a worker are given to others, in seconds.
LEASE_SECONDS: Final = 10.0
RENEW_SECONDS: Final = LEASE_SECONDS / 5

MOST_HOLDERS: Final = 1000
"""Redis does nothing else while it gathers them."""


class Short(str, Enum):
    """What a task waits for. The words are stable: programs read them in ``--json``."""

    RUNNING = "running"
    """All places that its kind may have are taken."""
    RESERVED = "reserved"
    """The places left are kept for interactive tasks."""
    IN_LINE = "in_line"
    """A place is free, and others that asked before come first."""
    REQUESTS = "requests"
    """The requests of this minute are used up, or what is left of them is kept for interactive."""
    TOKENS = "tokens"
    """The same of its tokens."""
    SLOWED = "slowed"
    """The resource has said that it gets too much (429)."""
    STARTING = "starting"
    """The store has just begun, or lost what it knew: running tasks have yet to tell of themselves.
    """


class Want(NamedTuple):
    """One task that would run, if it had all that it uses."""

    lease: str
    """Unique in the cluster, and of this attempt alone."""
    kind: Kind
    uses: Sequence[str]
    """Names of resources, sorted, none twice. All or nothing: nobody waits with a part of them."""
    tokens: int = 0
    """An estimate, charged when it is granted."""


class Ended(NamedTuple):
    """A granted lease that is given back."""

    lease: str
    began: bool
    """False: it never ran, so that its requests and tokens are given back too."""


class Wait(NamedTuple):
    """Why a want isn't granted yet."""

    resource: str
    short: Short
    seconds: float
    """Ask again after that time at the latest; a place that frees wakes whom it is meant for."""
    before: int = 0
    """How many are before it of those that want the same."""


class Turn(NamedTuple):
    """What one worker is answered."""

    granted: Collection[str]
    """Leases of those who may run now; they hold what they use until they are given back."""
    waits: Mapping[str, Wait]
    """By lease, of all others who want."""
    lost: Collection[str]
    """Leases that had ended before they were renewed. They hold again what they held, even above a
    limit, since their tasks run: nobody else is granted anything until there is room.
    """


@dataclass(frozen=True, slots=True)
class ResourceView:
    """One resource at one instant, for people and metrics."""

    name: str
    max_running: int | None
    running: Mapping[Kind, int]
    waiting: Mapping[Kind, int]
    requests_left: float | None
    """Of this minute; negative after more was used than estimated."""
    tokens_left: float | None
    rate: float
    """A part of the budgets, in (0, 1]: lowered by what the resource says (429), back by and by."""
    slowed_seconds: float
    """How much longer it gets no batch."""


class Holder(NamedTuple):
    """One granted lease, for people: which task holds what it uses, and for how long."""

    lease: str
    worker: str
    """Who has renewed it last: a worker, or a process that outlives its own."""
    kind: Kind
    uses: Sequence[str]
    seconds: float
    """Since it was granted, or since a store that had lost all was told of it."""


def longest_first(holders: Iterable[Holder]) -> list[Holder]:
    """In the order in which `ResourceStore.holders` tells them."""
    return sorted(holders, key=lambda one: (-one.seconds, one.lease))


class ResourceStore(Protocol):
    """Where the workers of an app meet."""

    def turn(
        self,
        worker: str,
        wants: Sequence[Want],
        running: Collection[Want],
        ended: Sequence[Ended],
    ) -> Turn:
        """Give back what has ended, renew what runs, and grant what can be, in this order.

        ``running`` are the wants that were granted: a store that has lost all it knew must learn
        what each of them holds. Any worker may renew or end a lease, as a process does that
        outlives its worker; to end one that isn't known does nothing.

        ``wants`` are all that the worker wants now, in its own order within a kind; one that isn't
        among them any more is forgotten. Interactive before batch, then who asked first among all
        workers; one who can't have what it uses stands in nobody's way who uses something else.
        A lease that is asked for twice is granted once: an answer may have been lost.
        """
        ...

    def woken(self, worker: str, seconds: float) -> bool:
        """Wait until something may have become free for this worker, ``seconds`` at the most.

        Not in the loop's thread. Only as many workers are woken as there is room for.
        """
        ...

    def leave(self, worker: str) -> None:
        """Forget what the worker wants; what it holds stays until it is given back or runs out."""
        ...

    def charge(self, resource: str, tokens: int = 0, requests: int = 0) -> None:
        """Take from a budget what was used beyond the estimate; negative numbers give back."""
        ...

    def slow_down(self, resource: str, retry_after_seconds: float | None) -> None:
        """The resource has refused a request: less from now on, and batch first."""
        ...

    def views(self) -> Sequence[ResourceView]:
        """All resources that the settings name, sorted by name."""
        ...

    def holders(self) -> Sequence[Holder]:
        """Who holds anything, the longest first; of more than `MOST_HOLDERS` not all."""
        ...
