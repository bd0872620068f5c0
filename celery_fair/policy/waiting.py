"""Why a kind waits in one worker, or a task anywhere: one word each, the same in every view."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from enum import Enum

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind
from celery_fair.policy.limits import Limits
from celery_fair.policy.load import Load, Mode


class Reason(str, Enum):
    """What something waits for. The words are stable: programs read them in ``--json``."""

    GATE_PROTECTED = "gate_protected"
    """Batch has all that it may while the gate protects interactive tasks."""
    ENGINE = "engine"
    """The engine behind the tasks queues: batch has what is left of its share, and no more."""
    CEILING = "ceiling"
    """The kind has all that its ceiling allows (``…_max_slots``, the fleet's split)."""
    SLOTS_TAKEN = "slots_taken"
    """All slots are taken, and the next is for the first in line."""
    INTERACTIVE_FIRST = "interactive_first"
    """The next free slot goes to interactive tasks, which wait too."""
    BATCH_OWED = "batch_owed"
    """The next free slot goes to batch, which is owed its share."""
    RESERVE = "reserve"
    """The free slots are kept for the next interactive tasks."""
    FLEET_RESERVE = "fleet_reserve"
    """The same for the fleet: its other workers have too few free ones; or they will run it."""
    JOINING = "joining"
    """The worker has just started, and listens to the fleet before it runs batch."""
    ASKING = "asking"
    """Batch is held until the broker has said that nothing interactive comes first."""
    ARRIVING = "arriving"
    """Nothing hinders it: it is on its way, or starts this instant."""

    IN_LINE = "in_line"
    """Others of its kind come first."""
    TENANT_TURN = "tenant_turn"
    """It is the turn of another tenant, which has had less of the slots."""
    TENANT_CAP = "tenant_cap"
    """Its tenant runs all that it may while others wait (``tenant_max_running``)."""
    FRONT_FIRST = "front_first"
    """Tasks in the front of its queue come first: retries and continuations."""
    NO_CREDIT = "no_credit"
    """The worker holds as many as it may: others wait there for their time, rate or failure."""
    RATE_LIMIT = "rate_limit"
    """Its task's rate limit, which Celery keeps."""
    RESOURCE = "resource"
    """It uses what all workers share, and there is no place, or no budget, for it now."""
    HOOK = "hook"
    """The hook before batch tasks is being asked, or has put it off."""
    ETA = "eta"
    """Its time has not come."""
    TIMING_OUT = "timing_out"
    """It has waited for too long, and is being failed."""
    PAUSED = "paused"
    """Somebody has paused its kind or its queue."""
    DRAINING = "draining"
    """The worker is being emptied, and starts nothing."""
    STOPPING = "stopping"
    """The worker ends, and starts nothing."""
    OBSERVING = "observing"
    """The worker only observes: Celery's own order rules."""
    PLAIN_WORKER = "plain_worker"
    """A worker without celery-fair takes from its queue, and tells no reasons."""
    NO_CONSUMER = "no_consumer"
    """No worker that answers consumes its queue."""
    NO_ANSWER = "no_answer"
    """A worker has it that doesn't answer: it is busy, cut off or dead."""
    DUPLICATE = "duplicate"
    """Another message of the same request runs, and this one was dropped."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One worker at one instant. Unknown backlogs count as what is held of them."""

    limits: Limits
    load: Load
    mode: Mode
    slots: int
    running_interactive: int
    running_batch: int
    held_interactive: int
    held_batch: int
    limited_interactive: int
    limited_batch: int
    """Of those that wait, so many wait for their rate."""
    listening: bool
    owed: bool
    paused: Set[Kind] = frozenset()
    engine_queues: bool = False

    @property
    def free(self) -> int:
        return self.slots - self.running_interactive - self.running_batch

    def waiting(self, kind: Kind) -> int:
        """How many tasks of a kind wait, here and at the broker."""
        held = self.held_batch if kind == BATCH else self.held_interactive
        load = self.load
        backlog = load.batch_backlog if kind == BATCH else load.interactive_backlog
        return held if backlog is None else max(backlog, held)

    @property
    def batch_goes_first(self) -> bool:
        """Whether batch may have the next slot whatever interactive does."""
        return self.owed and self.running_batch < self.limits.owed_ceiling


def why_waits(kind: Kind, scene: Scene) -> Reason | None:
    """Return what hinders a kind most; ``None`` if nothing of it waits."""
    waiting = scene.waiting(kind)
    if not waiting:
        return None
    if kind in scene.paused:
        return Reason.PAUSED
    if waiting <= (scene.limited_batch if kind == BATCH else scene.limited_interactive):
        return Reason.RATE_LIMIT
    return _why_batch(scene) if kind == BATCH else _why_interactive(scene)


def _why_interactive(scene: Scene) -> Reason:
    limits = scene.limits
    if limits.interactive_is_full(scene.running_interactive):
        return Reason.CEILING
    if scene.free <= 0:
        owed = scene.batch_goes_first and scene.waiting(BATCH)
        return Reason.BATCH_OWED if owed else Reason.SLOTS_TAKEN
    leans = limits.leans and not scene.held_interactive
    return Reason.FLEET_RESERVE if leans else Reason.ARRIVING


def _why_batch(scene: Scene) -> Reason:
    limits, running = scene.limits, scene.running_batch
    if scene.listening:
        return Reason.JOINING
    first = scene.batch_goes_first
    if not first and limits.batch_ceiling <= running and limits.batch_ceiling < scene.slots:
        if scene.engine_queues:
            return Reason.ENGINE
        return Reason.GATE_PROTECTED if scene.mode is Mode.PROTECTED else Reason.CEILING
    if not first and scene.waiting(INTERACTIVE) > scene.limited_interactive:
        return Reason.INTERACTIVE_FIRST
    if scene.free <= 0:
        return Reason.SLOTS_TAKEN
    if not first and scene.free <= limits.kept(scene.running_interactive):
        return Reason.RESERVE if scene.free <= limits.reserve else Reason.FLEET_RESERVE
    return Reason.ASKING if scene.held_batch else Reason.ARRIVING
