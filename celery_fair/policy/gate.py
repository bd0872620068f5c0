"""The gate's mode: open, or protected while interactive tasks queue up."""

from __future__ import annotations

from enum import Enum

from celery_fair.policy.load import Load, Mode
from celery_fair.policy.settings import PolicySettings

_LATE_MEMORY_SECONDS = 1.0
_NEVER = float("-inf")


class Cause(str, Enum):
    """Why the mode changed, in one word; the reason beside it is a sentence with the numbers."""

    LATE = "late"
    """An interactive task was started too late."""
    BACKLOG = "backlog"
    WAIT = "wait"
    BLIND = "blind"
    ENGINE = "engine"
    """The engine behind the tasks queues; or, where only batch is served, no longer does."""
    EMPTY = "empty"
    """Nothing interactive waits."""
    RELAXED = "relaxed"
    """Backlog and wait are under half of their thresholds."""
    ALONE = "alone"
    """The worker serves one kind only from now on."""
    FULL = "full"
    """Interactive has all the slots that its hard ceiling allows."""


CAUSES = {
    Mode.PROTECTED: (Cause.LATE, Cause.BACKLOG, Cause.WAIT, Cause.BLIND, Cause.ENGINE),
    Mode.OPEN: (Cause.EMPTY, Cause.RELAXED, Cause.FULL, Cause.ALONE, Cause.ENGINE),
}
"""What can have brought each mode about."""


class Gate:
    """Two thresholds with hysteresis: close on either signal, open when both are under half.

    The signals are the interactive backlog beyond the fleet's free slots, and how long interactive
    tasks wait *here*. Waits are on this worker's own clock: a publisher whose clock is off moves
    nothing.
    """

    __slots__ = (
        "_blind_ticks", "_half_late_at", "_late_at", "_seconds", "_settings", "_short_since",
        "blind", "cause", "changes", "half_wait_seconds", "mode", "reason", "since",
    )  # fmt: skip

    def __init__(self, settings: PolicySettings, now: float) -> None:
        self._settings = settings
        self._late_at = self._half_late_at = _NEVER
        self._short_since: float | None = None
        self._blind_ticks = 0
        self.half_wait_seconds = settings.protect_wait_seconds / 2
        self.blind = False
        self.mode = Mode.OPEN
        self.since = now
        self.reason = "started"
        self.cause: Cause | None = None
        self.changes = dict.fromkeys(
            ((mode, cause) for mode, causes in CAUSES.items() for cause in causes), 0
        )
        self._seconds = dict.fromkeys(Mode, 0.0)

    def reconfigure(self, settings: PolicySettings) -> None:
        """Compare with other thresholds from the next look on."""
        self._settings = settings
        self.half_wait_seconds = settings.protect_wait_seconds / 2

    def seconds(self, now: float) -> dict[Mode, float]:
        """How long it has been in each mode, all together."""
        return {**self._seconds, self.mode: self._seconds[self.mode] + now - self.since}

    def note_late(self, waited_seconds: float, now: float) -> None:
        """Remember for a second that an interactive task was started late."""
        self._half_late_at = now
        if waited_seconds > self._settings.protect_wait_seconds:
            self._late_at = now

    def observe(
        self,
        load: Load,
        now: float,
        *,
        slots: int,
        free: int,
        running_here: int,
        keep_shut: bool = False,
    ) -> Mode | None:
        """Return the new mode if this tick changes it.

        ``slots`` and ``free`` are the fleet's, ``running_here`` this worker's interactive tasks.
        ``keep_shut``: something else than these has shut it, and still does.
        """
        self.blind = load.interactive_backlog is None and not load.interactive_lane_empty
        # One tick may fall into the round trip after an arrival; a full lane is full at the next.
        # Where only batch runs, the lane has no credit to fill, and says nothing either way.
        full = self.blind and (running_here > 0 or load.interactive_oldest_wait_seconds > 0)
        self._blind_ticks = self._blind_ticks + 1 if full else 0
        threshold = max(self._settings.protect_backlog, 2 * slots)
        wanting = load.interactive_wanting
        excess = 0 if wanting is None else wanting - free
        if excess <= 0:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        if self.mode is Mode.OPEN:
            reason = self._reason_to_protect(load, now, excess, threshold)
        elif keep_shut:
            reason = None
        else:
            reason = self._reason_to_open(load, now, excess, threshold)
        return None if reason is None else self._change(*reason, now)

    def stand_open(self, now: float, cause: Cause, reason: str) -> Mode | None:
        """Open at once: no interactive task could use the protection."""
        return None if self.mode is Mode.OPEN else self._change(cause, reason, now)

    def stand_shut(self, now: float, cause: Cause, reason: str) -> Mode | None:
        """Shut at once, for something else than what waits here."""
        return None if self.mode is Mode.PROTECTED else self._change(cause, reason, now)

    def _reason_to_protect(
        self, load: Load, now: float, excess: int, threshold: int
    ) -> tuple[Cause, str] | None:
        limit = self._settings.protect_wait_seconds
        if now - self._late_at <= _LATE_MEMORY_SECONDS:
            return Cause.LATE, f"an interactive task was started later than {limit:g} s"
        if not load.interactive_waits:
            return None
        if excess > threshold:
            return Cause.BACKLOG, f"interactive backlog beyond free slots {excess} > {threshold}"
        if self._wait(load, now) > limit:
            return Cause.WAIT, f"an interactive task has waited longer than {limit:g} s"
        if self._blind_ticks >= 2:
            return Cause.BLIND, "backlog unknown and the interactive lane is full"
        return None

    def _reason_to_open(
        self, load: Load, now: float, excess: int, threshold: int
    ) -> tuple[Cause, str] | None:
        if now - self.since < self._settings.protect_hold_seconds:
            return None
        if not load.interactive_waits:
            # A late start has had its protection; it must not close the gate again.
            self._late_at = self._half_late_at = _NEVER
            return Cause.EMPTY, "nothing interactive waits"
        if (
            not self.blind
            and excess < threshold / 2
            and self._wait(load, now) < self.half_wait_seconds
            and now - self._half_late_at > _LATE_MEMORY_SECONDS
        ):
            return (
                Cause.RELAXED,
                "interactive backlog and wait are under half of their thresholds",
            )
        return None

    def _wait(self, load: Load, now: float) -> float:
        """Seconds that one held here has waited, or one at the broker since slots ran out."""
        here = load.interactive_oldest_wait_seconds
        return here if self._short_since is None else max(here, now - self._short_since)

    def _change(self, cause: Cause, reason: str, now: float) -> Mode:
        self._seconds[self.mode] += now - self.since
        self.mode = Mode.PROTECTED if self.mode is Mode.OPEN else Mode.OPEN
        self.since = now
        self.cause, self.reason = cause, reason
        self.changes[self.mode, cause] += 1
        return self.mode
