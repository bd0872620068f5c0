"""What an order may be about: a pause of a kind or of a queue, a setting, or a drain."""

from __future__ import annotations

from typing import Final, NamedTuple

from celery_fair.policy.kinds import KINDS, Kind

EVERYBODY: Final = "*"
"""The scope of an order for all workers; any other scope is the name of one."""

PAUSE: Final = "pause"
SET: Final = "set"
DRAIN: Final = "drain"


class PauseName(NamedTuple):
    """What a pause stops: a kind, or one queue of it."""

    kind: Kind
    queue: str | None

    def __str__(self) -> str:
        return self.kind if self.queue is None else f"{self.kind} from {self.queue}"


def pause_name(kind: Kind, queue: str | None = None) -> str:
    """The name of the order that pauses a kind, or a queue."""
    return f"{PAUSE}:{kind}" if queue is None else f"{PAUSE}:{kind}:{queue}"


def pause_of(name: str) -> PauseName | None:
    """What an order of this name pauses; ``None`` if it is about something else."""
    what, _, rest = name.partition(":")
    kind, _, queue = rest.partition(":")
    if what != PAUSE or kind not in KINDS:
        return None
    return PauseName(next(known for known in KINDS if known == kind), queue or None)


def set_name(setting: str) -> str:
    """The name of the order that sets this setting."""
    return f"{SET}:{setting}"


def setting_of(name: str) -> str | None:
    """The setting that an order of this name sets; ``None`` if it is about something else."""
    what, _, setting = name.partition(":")
    return setting if what == SET and setting else None
