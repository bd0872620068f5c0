"""What `top` shows of a worker's facts, checked: anybody may publish events."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

logger = logging.getLogger(__name__)

MOST = 10**12
"""No figure is larger, and a float of it still has digits behind the point."""


LONGEST = 256
"""Characters of a name or a reason, as much as a wide terminal shows."""


def plain(text: str) -> str:
    """Return the first `LONGEST` characters of a text, without what a terminal obeys.

    Control characters (escape sequences begin with one), marks that turn the direction of writing,
    line separators, and halves of surrogate pairs, which can't be written at all.
    """
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        else c
        for c in text[:LONGEST]
    )


Plain: TypeAlias = Annotated[str, AfterValidator(plain)]
Count: TypeAlias = Annotated[int, Field(ge=0, le=MOST)]
Number: TypeAlias = Annotated[float, Field(ge=-MOST, le=MOST)]


class _Part(BaseModel):
    """What isn't named is left out: the next version may tell more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Gate(_Part):
    mode: Plain
    since: Number
    reason: Plain
    blind: bool = False


class _Slots(_Part):
    total: Count
    reserve: Count
    idle_seconds: dict[Plain, Number] = {}


class _Share(_Part):
    guaranteed: Number | None
    received: Number | None


class _WaitSeconds(_Part):
    count: Count = 0
    p50: Number | None = None
    p95: Number | None = None
    p99: Number | None = None
    max: Number | None = None


class _Durations(_Part):
    buckets: list[Count] = []


class _Kind(_Part):
    queues: list[Plain]
    queues_left_out: Count = 0
    running: Count
    held: Count
    rate_limited: Count
    uncleared: Count = 0
    scheduled: Count
    ready: dict[Plain, Count] | None
    ready_left_out: Count = 0
    backlog: Count | None
    dispatched: Count
    given_back: Count
    wait_seconds: _WaitSeconds = _WaitSeconds()
    waits: _Durations = _Durations()


class _Kinds(_Part):
    interactive: _Kind
    batch: _Kind


class _Pause(_Part):
    kind: Plain
    queue: Plain | None
    by: Plain
    at: Number


class _Drain(_Part):
    by: Plain
    at: Number
    done: bool


class _Steering(_Part):
    paused: list[_Pause] = []
    paused_left_out: Count = 0
    draining: _Drain | None = None
    not_in_force: Plain | None = None


class _Engine(_Part):
    probed: bool = False
    pressure: Number | None = None
    detail: Plain = ""
    queueing: bool = False
    unknown: bool = False
    age_seconds: Number | None = None
    failing: Plain = ""


class _ByKind(_Part):
    interactive: Count = 0
    batch: Count = 0


class _Resource(_Part):
    name: Plain
    max_running: Count | None = None
    running: _ByKind = _ByKind()
    waiting: _ByKind = _ByKind()
    requests_left: Number | None = None
    tokens_left: Number | None = None
    rate: Number = 1.0
    slowed_seconds: Number = 0.0


class _Resources(_Part):
    set: bool = False
    unknown: bool = False
    age_seconds: Number | None = None
    of: list[_Resource] = []
    left_out: Count = 0


class _Facts(_Part):
    version: Plain
    mode: Plain
    started_at: Number
    gate: _Gate
    slots: _Slots
    share: _Share
    last_batch_start: Number | None
    kinds: _Kinds
    steering: _Steering = _Steering()
    engine: _Engine = _Engine()
    resources: _Resources = _Resources()


def checked(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the facts in the shape in which they came, or ``None`` if they can't be read."""
    try:
        return _Facts.model_validate(facts).model_dump()
    except (ValidationError, RecursionError) as error:
        logger.debug("celery-fair: facts that can't be read: %r", error)
        return None
