"""One request that waits until it is cleared."""

from __future__ import annotations

import math
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from celery_fair.resources.charging import LEASE as LEASE  # whoever puts them there looks here
from celery_fair.resources.charging import WANT as WANT
from celery_fair.resources.store import Want
from celery_fair.worker.clearing.needs import Needs

if TYPE_CHECKING:
    from celery_fair.policy.tenants import Turn
    from celery_fair.worker.lanes import Held, Lane

ATTRIBUTE: Final = "fair_waiting"
"""Of a Celery request: its `Waiting`, from its arrival to its end."""

LONGEST_ID: Final = 64
"""Of a task's id in a lease, where `task_of` finds it: it is for people."""

_numbers = count(1)


class Waiting:
    """A request, what it needs, and how far it has come.

    It stays with its request for good: from it the end of a task is known to free a place. ``want``
    has the lease of this try; a place that was given back is asked for anew under another, so that
    an answer that comes too late is nobody's.
    """

    __slots__ = (
        "asks_hook", "delays", "held", "lane", "not_before", "received_at", "said", "since",
        "tokens", "turn", "uses", "want",
    )  # fmt: skip

    def __init__(self, lane: Lane, held: Held, needs: Needs) -> None:
        self.lane = lane
        self.held = held
        self.uses, self.tokens, self.asks_hook = needs
        """Whether the hook has yet to let it run."""
        self.want: Want | None = None
        self.not_before = -math.inf
        """Until then the hook has put it off."""
        self.turn: Turn | None = None
        """What its tenant is charged of what it uses, from its start on."""
        self.delays = 0
        self.said: dict[str, Any] | None = None
        """The hook's last answer, as ``explain`` tells it."""
        self.received_at = self.since = held.received_at

    @property
    def request(self) -> Any:
        return self.held.request

    @property
    def key(self) -> int:
        """Under which its lane has it."""
        return self.held.sequence

    def wants_anew(self, worker: str) -> None:
        """Ask under a lease of its own from now on, if it uses anything."""
        self.want = None
        if self.uses:
            lease = f"{worker}/{next(_numbers)}/{_readable(self.request.id)}"
            self.want = Want(lease, self.lane.kind, tuple(self.uses), self.tokens)


def _readable(id: object) -> str:
    """A task's id as it goes into a lease: half a character is none to Redis's JSON."""
    return str(id)[:LONGEST_ID].encode(errors="replace").decode()


def waiting_of(request: Any) -> Waiting | None:
    """What is known of a request's clearance; None of one that needs none."""
    found: Waiting | None = request.__dict__.get(ATTRIBUTE)
    return found
