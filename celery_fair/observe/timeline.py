"""Why each kind has waited in one worker, over the last hour: what happened lately, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from celery_fair.observe.record import LONGEST_TICK_SECONDS
from celery_fair.policy.kinds import KINDS, Kind
from celery_fair.policy.waiting import Reason, Scene, why_waits

SEGMENTS: Final = 256
"""Of each kind, in 200 kB at most; of more the older half is told in half as many."""

HORIZON_SECONDS: Final = 3600.0


class Segment:
    """A stretch of time, and how many seconds of it a kind has waited for which reason."""

    __slots__ = ("running", "seconds", "since", "until")

    def __init__(self, since: float, until: float) -> None:
        self.since = since
        self.until = until
        self.seconds: dict[Reason, float] = {}
        self.running = [0.0, 0.0]
        """Slot-seconds of interactive and batch tasks while it waited."""

    def add(self, reason: Reason, seconds: float, interactive: float, batch: float) -> None:
        self.seconds[reason] = self.seconds.get(reason, 0.0) + seconds
        self.running[0] += interactive
        self.running[1] += batch

    def take_in(self, later: Segment) -> None:
        """Tell of both in one."""
        self.until = later.until
        for reason, seconds in later.seconds.items():
            self.add(reason, seconds, 0.0, 0.0)
        self.running[0] += later.running[0]
        self.running[1] += later.running[1]


class Waited(NamedTuple):
    """What is known of a wait: seconds by reason, most first; slots taken meanwhile, on average."""

    seconds: Mapping[Reason, float]
    running_interactive: float = 0.0
    running_batch: float = 0.0


class Timeline:
    """Kept by a worker's tick; blank where nothing of a kind waited, or the loop stood still.

    A segment goes on while its reason does. So a steady wait is one, and where reasons change with
    each tick it is the older ones that become coarse.
    """

    def __init__(self, now: float) -> None:
        self.merged = 0
        """Segments that are told together with another."""
        self._at = now
        self._segments: dict[Kind, list[Segment]] = {kind: [] for kind in KINDS}
        self._now: dict[Kind, tuple[Reason, float] | None] = dict.fromkeys(KINDS)

    def tick(self, scene: Scene, now: float) -> None:
        """Charge the time since the last tick to what each kind waits for now."""
        since, self._at = self._at, now
        if now - since > LONGEST_TICK_SECONDS:
            since = now  # a loop that stood still: nobody knows
        for kind in KINDS:
            reason = why_waits(kind, scene)
            before = self._now[kind]
            if reason is None:
                self._now[kind] = None
                continue
            if before is None or before[0] is not reason or since == now:
                self._now[kind] = (reason, since)
            self._add(self._segments[kind], reason, since, now, scene)

    def now(self, kind: Kind) -> tuple[Reason, float] | None:
        """What a kind waits for as of the last tick, and since when; None if nothing waits."""
        return self._now[kind]

    def over(self, kind: Kind, since: float, until: float, *, blank_seconds: float = 0.0) -> Waited:
        """What is known of a wait of that kind; times on the worker's monotonic clock.

        A blank of up to ``blank_seconds`` is taken for what comes after it: what waits at the
        broker may be counted only once a second.
        """
        seconds: dict[Reason, float] = {}
        running = [0.0, 0.0]
        told = since
        for segment in self._segments[kind]:
            begin = max(segment.since, since)
            if 0 < begin - told <= blank_seconds:
                begin = told
            common = min(segment.until, until) - begin
            if common <= 0:
                continue
            told = segment.until
            part = common / (segment.until - segment.since)
            for reason, lasted in segment.seconds.items():
                seconds[reason] = seconds.get(reason, 0.0) + lasted * part
            for number in range(len(KINDS)):
                running[number] += segment.running[number] * part
        known = sum(seconds.values())
        if not known:
            return Waited({})
        ranked = sorted(seconds.items(), key=lambda item: -item[1])
        return Waited(dict(ranked), running[0] / known, running[1] / known)

    def _add(
        self, segments: list[Segment], reason: Reason, since: float, now: float, scene: Scene
    ) -> None:
        passed = now - since
        if passed <= 0:
            return
        last = segments[-1] if segments else None
        if last is None or last.until < since or last.seconds.keys() != {reason}:
            last = Segment(since, now)
            segments.append(last)
        last.until = now
        last.add(reason, passed, scene.running_interactive * passed, scene.running_batch * passed)
        if len(segments) > SEGMENTS:
            self._shorten(segments, now)

    def _shorten(self, segments: list[Segment], now: float) -> None:
        """Tell two of the older half in one, and of what was too long ago nothing."""
        older = [one for one in segments[: SEGMENTS // 2] if one.until > now - HORIZON_SECONDS]
        told = older[::2]
        for earlier, later in zip(told, older[1::2], strict=False):
            earlier.take_in(later)
        self.merged += len(older) - len(told)
        segments[: SEGMENTS // 2] = told
