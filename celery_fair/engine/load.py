"""What a probe answers, and what can be made of it."""

from __future__ import annotations

import inspect
import math
from typing import Any, Final, NamedTuple

MOST: Final = 1000.0
"""A pressure above it says no more; infinity would be no number in JSON."""

DETAIL_LENGTH: Final = 120

TRUE: Final = 2.0
"""The pressure of a probe that only says yes: batch has half of its share."""


class EngineLoad(NamedTuple):
    """How much waits in the engine: 0 for nothing, 1 for as much as is fine, more for too much.

    Over 1 the gate of batch shuts, at 0.5 it opens again. ``detail`` says it in the engine's own
    figures, for people.
    """

    pressure: float
    detail: str = ""


class BadAnswer(TypeError):  # noqa: N818 - named for what happened
    """A probe's answer that means nothing."""

    def __init__(self, got: object) -> None:
        super().__init__(
            f"expected an EngineLoad, a number from 0, or true or false, got {str(got)[:80]}"
        )


def read_answer(answer: Any) -> EngineLoad:
    """Make an `EngineLoad` of what a probe has returned; raises `BadAnswer`."""
    if isinstance(answer, EngineLoad):
        return EngineLoad(_pressure(answer.pressure), one_line(answer.detail))
    if isinstance(answer, bool):
        return EngineLoad(TRUE if answer else 0.0)
    return EngineLoad(_pressure(answer))


def _pressure(value: Any) -> float:
    if inspect.iscoroutine(value):
        value.close()  # else Python warns of it where nobody can do anything about it
        raise BadAnswer("a coroutine: a probe is called, and not awaited")
    if not isinstance(value, (int, float)):
        raise BadAnswer(type(value).__name__)
    if math.isnan(value) or value < 0:
        raise BadAnswer(value)
    return min(float(value), MOST)


def one_line(text: Any) -> str:
    """A text of anybody's as one short line."""
    cut = str(text)[:DETAIL_LENGTH]
    return "".join(sign if sign.isprintable() else " " for sign in cut)
