"""Signs that say the same without colour: slots as a strip, waits as a sparkline."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from celery_fair.policy.kinds import BATCH, INTERACTIVE, Kind

STYLES: Final[Mapping[Kind, str]] = {INTERACTIVE: "cyan", BATCH: "magenta"}

SIGNS: Final = (("I", "bold cyan"), ("B", "magenta"), ("r", "dim cyan"), (".", "dim"))
"""Slots: interactive and batch tasks running, free but kept from batch, free for both."""

LEVELS: Final = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 300.0)
"""Upper ends in seconds of the heights of a sparkline. Fixed, so that one can compare two."""
HEIGHTS: Final = "▁▂▃▄▅▆▇█"


def slots_of(report: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Slots with an interactive task, with a batch task, kept in reserve, and free for both."""
    kinds, slots = report["kinds"], report["slots"]
    interactive, batch = kinds["interactive"]["running"], kinds["batch"]["running"]
    free = max(slots["total"] - interactive - batch, 0)
    kept = min(free, slots["reserve"])
    return interactive, batch, kept, free - kept


def strip(slots: Sequence[int], width: int) -> Text:
    """One letter a slot; where there are more slots than room, a part of the strip a share."""
    strip = Text(no_wrap=True)
    for (sign, style), letters in zip(SIGNS, _fitted(slots, width), strict=True):
        strip.append(sign * letters, style=style)
    return strip


def _fitted(parts: Sequence[int], width: int) -> list[int]:
    """Shrink parts to a width in proportion; none that is there vanishes."""
    whole = sum(parts)
    if whole <= width:
        return list(parts)
    fitted = [max(part * width // whole, 1) if part else 0 for part in parts]
    order = sorted(range(len(parts)), key=lambda at: -(parts[at] * width % whole))
    for at in order:  # what rounding has left goes to the largest remainders
        if sum(fitted) < width and parts[at]:
            fitted[at] += 1
    while sum(fitted) > width:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def sparkline(waits: Iterable[float | None], kind: Kind) -> Text:
    """One character each; a space where nothing has started."""
    line = "".join(" " if wait is None else HEIGHTS[bisect_left(LEVELS, wait)] for wait in waits)
    return Text(line, style=STYLES[kind], no_wrap=True)


_ASCII: Final = str.maketrans(
    {
        **dict(zip(HEIGHTS, "_.-:=+*#", strict=True)),
        "\N{NO-BREAK SPACE}": " ",
        "\N{HORIZONTAL ELLIPSIS}": "~",
        "\N{EN DASH}": "-",
        "\N{LESS-THAN OR EQUAL TO}": "<",
    }
)


class InAscii:
    """What is inside, where the terminal can't write anything else."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            text = segment.text.translate(_ASCII).encode("ascii", "replace").decode()
            yield Segment(text, segment.style, segment.control)
