"""Why slots stand idle while something waits."""

from __future__ import annotations

from enum import Enum

from celery_fair.policy.limits import Limits
from celery_fair.policy.load import Load, Mode


class Idle(str, Enum):
    """What keeps a free slot from what waits."""

    RESERVE = "reserve"
    """Batch waits, and the slot is kept for the next interactive task."""
    PROTECTED = "protected"
    """Batch waits, and has all that it may while the gate protects interactive tasks."""
    CEILING = "ceiling"
    """A kind has all the slots that its ceiling allows (``batch_max_slots``, the fleet's split)."""
    JOINING = "joining"
    """The worker has just started, and listens to the fleet before it runs batch."""
    ASKING = "asking"
    """Batch is held, and waits for the broker's word that nothing interactive comes first."""
    ARRIVING = "arriving"
    """What waits is still at the broker, or on its way."""


def why_idle(
    limits: Limits,
    load: Load,
    mode: Mode,
    *,
    free: int,
    running_interactive: int,
    running_batch: int,
    held: tuple[int, int],
    listening: bool,
) -> tuple[Idle, int] | None:
    """Return why, and how many slots; ``None`` if nothing waits for the ``free`` ones.

    ``held`` are the interactive and the batch messages held; backlogs that are unknown count as
    what is held of them.
    """
    if free <= 0:
        return None
    interactive = _waiting(load.interactive_backlog, held[0])
    if interactive:
        full = running_interactive >= limits.interactive_ceiling
        return (Idle.CEILING if full else Idle.ARRIVING), min(free, interactive)
    batch = _waiting(load.batch_backlog, held[1])
    if not batch:
        return None
    if listening:
        reason = Idle.JOINING
    elif running_batch >= limits.batch_ceiling:
        reason = Idle.PROTECTED if mode is Mode.PROTECTED else Idle.CEILING
    elif free <= limits.kept(running_interactive):
        reason = Idle.RESERVE
    else:
        reason = Idle.ASKING if held[1] else Idle.ARRIVING
    return reason, min(free, batch)


def _waiting(backlog: int | None, held: int) -> int:
    return held if backlog is None else backlog
