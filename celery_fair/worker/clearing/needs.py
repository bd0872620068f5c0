"""What a request must have before it may take a slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from celery_fair.headers import FairHeader
from celery_fair.policy.kinds import BATCH, Kind
from celery_fair.worker import internals

OF_CELERY: Final = frozenset({"celery.chord_unlock", "celery.accumulate", "celery.backend_cleanup"})
"""Its own work, of which a hook isn't asked: to refuse it would end a chord that nobody refused."""

Uses = Callable[[Kind, str, FairHeader | None], tuple[Sequence[str], int] | None]
"""What a task uses, and how many tokens, by its kind, its name and its header."""


class Needs(NamedTuple):
    """What one request needs, or has yet to be asked about."""

    uses: Sequence[str]
    tokens: int
    asks_hook: bool


def needs_of(kind: Kind, request: Any, uses: Uses | None, has_hook: bool) -> Needs | None:
    """Return what a request needs; None if nothing, as of most, whose header isn't read for it."""
    name = request.task.name
    asks = has_hook and kind == BATCH and name not in OF_CELERY
    if not asks and (uses is None or uses(kind, name, None) is None):
        return None
    header = FairHeader.read(internals.message_of(request).headers)
    found = None if uses is None else uses(kind, name, header)
    asks = asks and (header is None or not header.yields)  # what goes on was let in before
    if found is None:
        return Needs((), 0, asks) if asks else None
    return Needs(*found, asks)
