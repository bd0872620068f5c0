"""What is asked for: "interactive p95 < 2s", "batch 300/h", "batch done by 07:00".

A sentence that isn't understood whole is refused; nothing of it is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from celery_fair.policy.kinds import INTERACTIVE, KINDS, Kind

EXPECTED_SLO: Final = "sentences like 'interactive p95 < 2s' or 'p99 < 500ms'"
EXPECTED_BATCH: Final = "'done by 07:00', 'done in 6h' or a rate like '300/h'"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)")
_SLO: Final = re.compile(r"(?:(\w+)\s+)?p(\d{1,2}(?:\.\d{1,2})?)\s*(?:<=|<)\s*(\S.*)", re.I)
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|min|h|d)", re.I)
_BY: Final = re.compile(r"done\s+by\s+(.+)", re.I)
_IN: Final = re.compile(r"done\s+in\s+(.+)", re.I)
MOST_SECONDS: Final = 7 * 86_400.0


class TargetError(ValueError):
    """A target can't be understood; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Wait:
    """So many of a kind's tasks have waited for less than ``seconds`` when they start."""

    kind: Kind
    quantile: float
    seconds: float

    @property
    def name(self) -> str:
        """As it would be said."""
        return f"{self.kind} p{self.quantile * 100:g} < {spelled(self.seconds)}"


@dataclass(frozen=True, slots=True)
class Rate:
    """So many batch tasks a second end at least."""

    per_second: float
    said: str = ""

    @property
    def name(self) -> str:
        """As it was said."""
        return f"batch {self.said or f'{self.per_second * 3600:g}/h'}"


@dataclass(frozen=True, slots=True)
class Done:
    """All batch has ended so many seconds after the start."""

    seconds: float
    said: str = ""

    @property
    def name(self) -> str:
        """As it was said."""
        return f"batch {self.said or f'done in {spelled(self.seconds)}'}"


@dataclass(frozen=True, slots=True)
class KeepsUp:
    """What comes of batch also starts: asked for where nothing is said of batch."""

    part: float = 0.97
    name: str = "batch keeps up"


Target = Wait | Rate | Done | KeepsUp


def parse_slo(text: str) -> list[Wait]:
    """Return the waits that a sentence, or several with commas, ask for."""
    found = [_wait(part.strip(), text) for part in text.split(",")]
    twice = {(one.kind, one.quantile) for one in found}
    if len(twice) < len(found):
        raise TargetError(f"expected each percentile of a kind once, got {text!r:.80}")
    return found


def _wait(text: str, whole: str) -> Wait:
    match = _SLO.fullmatch(text)
    if match is None:
        raise TargetError(f"expected {EXPECTED_SLO}, got {text or whole!r:.80}")
    kind = (match[1] or INTERACTIVE).lower()
    if kind not in KINDS:
        raise TargetError(f"expected {' or '.join(KINDS)} before p{match[2]}, got {match[1]!r:.40}")
    quantile = float(match[2]) / 100
    if not 0.5 <= quantile < 0.9991:
        raise TargetError(f"expected a percentile from p50 to p99.9, got p{match[2]}")
    return Wait(_kind(kind), quantile, _seconds(match[3], "a time like 2s or 500ms"))


def _kind(name: str) -> Kind:
    return next(kind for kind in KINDS if kind == name)


def parse_batch(text: str, start: datetime | None) -> Rate | Done:
    """Return what is asked of batch; "by" is the first such time after ``start``, both local.

    Without a ``start`` a time of day says nothing, and is refused.
    """
    said = re.sub(r"^batch\s+", "", " ".join(text.split()), flags=re.I)
    if match := _RATE.fullmatch(said):
        rate = float(match[1]) / _UNITS[match[2].lower()]
        if not rate:
            raise TargetError(f"expected a rate above 0, got {text!r:.80}")
        return Rate(rate, said)
    if match := _IN.fullmatch(said):
        return Done(_seconds(match[1], "a time like 6h or 1h 30min"), said)
    if match := _BY.fullmatch(said):
        return _done_by(match[1], start)
    raise TargetError(f"expected {EXPECTED_BATCH}, got {text!r:.80}")


def _done_by(clock: str, start: datetime | None) -> Done:
    if start is None:
        raise TargetError(
            f"expected a trace whose first `at` is seconds since 1970, as 'by {clock}' needs to "
            "know the time of day, got another clock's; say 'done in 6h' instead"
        )
    end = next_time(clock, start)
    zone = end.astimezone().tzname() or ""
    return Done(end.timestamp() - start.timestamp(), f"done by {end:%H:%M} {zone}".rstrip())


def next_time(clock: str, after: datetime) -> datetime:
    """The first time after another at which a clock of this machine's zone shows this.

    Both are naive, so that a night in which clocks are changed is as long as it is.
    """
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", clock.strip())
    if match is None:
        raise TargetError(f"expected a time of day like 07:00, got {clock!r:.40}")
    found = after.replace(hour=int(match[1]), minute=int(match[2]), second=0, microsecond=0)
    return found if found > after else found + timedelta(days=1)


def _seconds(text: str, expected: str) -> float:
    said = text.strip().lower()
    if not re.fullmatch(rf"(?:{_DURATION.pattern}\s*)+", said):
        raise TargetError(f"expected {expected} (ms, s, min, h, d), got {text!r:.40}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(said))
    if not 0 < seconds <= MOST_SECONDS:
        raise TargetError(f"expected {expected}, above 0 and at most 7d, got {text!r:.40}")
    return seconds


def spelled(seconds: float) -> str:
    """``500ms``, ``2s``, ``90min``: as it could be asked for."""
    for unit in ("d", "h", "min", "s"):
        if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0:
            return f"{seconds / _UNITS[unit]:g}{unit}"
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"
