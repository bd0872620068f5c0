"""Why slots stand idle while something waits."""

from __future__ import annotations

from enum import Enum

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.policy.waiting import Reason, Scene, why_waits


class Idle(str, Enum):
    """What keeps a free slot from what waits."""

    RESERVE = "reserve"
    """Batch waits, and the slot is kept for the next interactive task."""
    PROTECTED = "protected"
    """Batch waits, and has all that it may while the gate protects interactive tasks."""
    ENGINE = "engine"
    """Batch waits, and has what is left of its share while the engine behind the tasks queues."""
    CEILING = "ceiling"
    """A kind has all the slots that its ceiling allows (``batch_max_slots``, the fleet's split)."""
    JOINING = "joining"
    """The worker has just started, and listens to the fleet before it runs batch."""
    ASKING = "asking"
    """Batch is held, and waits for the broker's word that nothing interactive comes first."""
    ARRIVING = "arriving"
    """What waits is still at the broker, or on its way."""
    PAUSED = "paused"
    """All that waits is of a kind that somebody has paused."""


_IDLE = {
    Reason.RESERVE: Idle.RESERVE,
    Reason.FLEET_RESERVE: Idle.RESERVE,
    Reason.GATE_PROTECTED: Idle.PROTECTED,
    Reason.ENGINE: Idle.ENGINE,
    Reason.CEILING: Idle.CEILING,
    Reason.JOINING: Idle.JOINING,
    Reason.ASKING: Idle.ASKING,
    Reason.PAUSED: Idle.PAUSED,
}


def why_idle(scene: Scene) -> tuple[Idle, int] | None:
    """Return why, and how many slots; ``None`` if nothing waits for the free ones."""
    if scene.free <= 0:
        return None
    # What is paused explains an idle slot only where nothing else could use it.
    kinds: tuple[Kind, ...] = (INTERACTIVE, BATCH)
    waiting = sorted(filter(scene.waiting, kinds), key=scene.paused.__contains__)
    kind = waiting[0] if waiting else BATCH
    reason = why_waits(kind, scene)
    if reason is None:
        return None
    if kind == INTERACTIVE and reason not in (Reason.CEILING, Reason.PAUSED):
        return Idle.ARRIVING, min(scene.free, scene.waiting(kind))
    return _IDLE.get(reason, Idle.ARRIVING), min(scene.free, scene.waiting(kind))
