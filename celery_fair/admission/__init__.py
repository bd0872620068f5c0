"""Admission: a publish is refused while as much waits as is allowed. `docs/admission.md` has more.

Without a limit nothing here asks a broker, or costs anything. What can't be known admits.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from celery_fair.admission.backlog import Backlog
from celery_fair.admission.canvas import Canvas
from celery_fair.errors import QueueFull
from celery_fair.policy.kinds import KINDS, Kind

if TYPE_CHECKING:
    from celery_fair.app import Fair
    from celery_fair.publish import Publish

RETRY_SECONDS = (1.0, 300.0)
"""Bounds of what a caller is told: an estimate from a second's readings may be anything."""
RETRY_UNKNOWN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class AdmissionFacts:
    """What this process has asked for since it started; all of it are counts of questions.

    A group is one question. ``refused`` is by kind and by limit (``"backlog"``, ``"wait"``).
    ``blind``: admitted by kind because something needed could not be known.
    """

    admitted: Mapping[str, int]
    refused: Mapping[tuple[str, str], int]
    blind: Mapping[str, int]
    reads: int
    """How often the broker was read."""


class Admission:
    """Decides on publishes by the limits of an app; safe from any thread, and after a fork."""

    def __init__(self, fair: Fair, backlog: Backlog | None = None) -> None:
        self._fair = fair
        self._limits: Mapping[Kind, tuple[int | None, float | None]] | None = None
        self.backlog = Backlog(fair) if backlog is None else backlog
        self._begin()

    def _begin(self) -> None:
        self._admitted: Counter[str] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()
        self._blind: Counter[str] = Counter()
        self._counting = Lock()
        self._pid = os.getpid()

    @property
    def _lock(self) -> Lock:
        """Guards the counts; after a fork they and it begin anew, as a thread may have held it."""
        if self._pid != os.getpid():
            self._begin()
        return self._counting

    @property
    def limits(self) -> Mapping[Kind, tuple[int | None, float | None]]:
        """The most that may wait of each limited kind: tasks, and seconds."""
        if self._limits is None:
            found = self._fair.settings.admission
            self._limits = {kind: found[kind] for kind in KINDS if any(found[kind])}
        return self._limits

    def facts(self) -> AdmissionFacts:
        """Return what has been counted so far."""
        with self._lock:
            counted = dict(self._admitted), dict(self._refused), dict(self._blind)
        return AdmissionFacts(*counted, reads=self.backlog.reads)

    def ask(self, kind: Kind) -> None:
        """Raise `QueueFull` where a task of ``kind`` would be refused."""
        limit = self.limits.get(kind)
        if limit is None:
            return
        try:
            known = self._check(kind, *limit)
        except QueueFull as refusal:
            with self._lock:
                self._refused[kind, refusal.limited_by] += 1
            raise
        with self._lock:
            self._admitted[kind] += 1
            self._blind[kind] += not known

    def routed(self, publish: Publish) -> None:
        """Decide on a message that is to leave for ``publish.queue``, and count it."""
        if not self.limits:
            return
        kind = self._fair.lanes.get(publish.queue)
        canvas = Canvas.current()
        free = kind is None or is_free(publish)
        if canvas is not None:
            canvas.ask(_nothing if free or kind is None else lambda: self.ask(kind))
        elif not free and kind is not None:
            self.ask(kind)
        if kind is not None:
            self.backlog.published(kind)

    def close(self) -> None:
        """Let go of the broker; the next question connects anew."""
        self.backlog.close()

    def _check(self, kind: Kind, most: int | None, most_seconds: float | None) -> bool:
        """Whether all that the limits need is known; raises `QueueFull`."""
        backlog = self.backlog.of(kind)
        if backlog is None:
            return False
        rate = self.backlog.rate(kind)
        if most is not None and backlog >= most:
            after = _retry_after(backlog - most + 1, rate or self.backlog.slope(kind))
            raise QueueFull(kind, backlog, most, after)
        if most_seconds is None or not backlog:
            return True
        if not rate:
            return False
        if backlog / rate > most_seconds:
            after = _retry_after(backlog - rate * most_seconds + 1, rate)
            raise QueueFull(kind, backlog, most_seconds, after, backlog / rate)
        return True


def is_free(publish: Publish) -> bool:
    """Whether it belongs to work that was let in, which must not fail half way.

    What a task publishes while it runs; and errbacks and bodies of chords, which the main process
    of a worker publishes in the name of their parent. The chunks of a job. And a second copy of a
    request that waits: it is one task still, and waits already.
    """
    options = publish.options
    claim = publish.claim
    return (
        publish.parent is not None
        or publish.around.let_in
        or (claim is not None and not claim.is_first)
        or options.get("parent_id") is not None
        or bool(options.get("retries"))
    )


def _retry_after(over: float, rate: float | None) -> float:
    least, most = RETRY_SECONDS
    return min(max(over / rate, least), most) if rate else RETRY_UNKNOWN_SECONDS


def _nothing() -> None:
    """What has no limit, or was let in before, is admitted."""
