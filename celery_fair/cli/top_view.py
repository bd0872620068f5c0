"""One frame of `top`: all workers together, then as many of them as fit."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from celery_fair.cli.status_shared import ODD, engine_lines, resource_lines
from celery_fair.cli.top_signs import InAscii, slots_of, sparkline, strip
from celery_fair.cli.top_waits import CELL_SECONDS
from celery_fair.cli.top_watch import Picture
from celery_fair.cli.top_workers import LEAST_IDLE, row, worker_rows
from celery_fair.cli.words import ago, count, duration, percent, plural
from celery_fair.observe.total import at_broker
from celery_fair.policy.kinds import KINDS

LEGEND: Final = "I interactive  B batch  r free, kept in reserve  . free"
WIDEST: Final = 140
"""Longer lines are harder to read."""
WITHOUT_END: Final = 100_000
"""Rows of a frame that is only printed."""


class Frame:
    """Draws a picture into the room there is: a screen's, or as long as it takes if printed."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, WIDEST)
        frame = Group(*_rows(self._picture, width, options.height or WITHOUT_END))
        yield InAscii(frame) if options.ascii_only else frame


def line(*parts: str | tuple[str, str]) -> Text:
    """One row, cut where the room ends."""
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


def _rows(picture: Picture, width: int, height: int) -> Iterator[RenderableType]:
    """Rows of the frame, each one line high."""
    everything = picture.total() if picture.workers else None
    head: list[RenderableType] = [_title(picture, everything, width)]
    head += [line((f"! {note}", "bold yellow")) for note in picture.notes]
    if everything is not None:
        head += _total(picture, everything, width)
    yield from head
    foot = _foot(picture)
    if everything is not None:
        yield from worker_rows(picture, width, height - len(head) - len(foot))
    yield from foot


def _title(picture: Picture, everything: Mapping[str, Any] | None, width: int) -> Text:
    clock = time.strftime("%H:%M:%S", time.localtime(picture.at))
    title = line(("fair top", "bold"))
    if everything is not None:
        gates = ", ".join(f"{number} {mode}" for mode, number in everything["gates"].items())
        title.append(
            f"   {plural(everything['workers'], 'worker')}, "
            f"{plural(everything['slots']['total'], 'slot')}   gates: {gates}"
        )
    title.truncate(max(width - len(clock) - 1, 0), overflow="ellipsis", pad=True)
    return title.append(f" {clock}", style="dim")


def _total(picture: Picture, everything: Mapping[str, Any], width: int) -> list[RenderableType]:
    return [
        *_lanes(picture, everything, width),
        *_slots(everything, width),
        _share(picture, everything),
        *_shared(everything),
        *_idle(picture),
    ]


COLUMNS: Final = {"running": 7, "held": 5, "ready": 9, "ETA": 5, "limited": 7, "wait p95": 8}
"""Of a kind: their names and widths. What waits is ready at the broker, held by a worker, or waits
for its time (ETA) or its rate (limited)."""
NAME: Final = 11
GAPS: Final = 7
MOST_SHARED: Final = 6
LONGEST: Final = 36
"""Characters of a sparkline: six minutes."""


def _lanes(picture: Picture, everything: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    room = min(max(width - NAME - sum(COLUMNS.values()) - GAPS, 0), LONGEST)
    yield _lane(["", *COLUMNS, _span(room) if picture.live else ""], room, "dim")
    for kind in KINDS:
        part = everything["kinds"][kind]
        wait = picture.total_wait(kind)
        bound = "" if picture.live or wait is None or len(picture.workers) == 1 else "≤ "
        figures = (
            str(part["running"]),
            count(part["held"]),
            _ready(part),
            count(part["scheduled"]),
            count(part["rate_limited"]),
            bound + duration(wait),
        )
        waits = picture.waits.line(kind, picture.now, room) if picture.live else ()
        name = kind if part["queues"] else f"({kind})"
        yield _lane([name, *figures, sparkline(waits, kind)], room)


def _ready(part: Mapping[str, Any]) -> str:
    """Messages at the broker; unknown where it can't be asked."""
    if not part["queues"]:
        return "–"
    return count(at_broker(part))


def _span(cells: int) -> str:
    text = f"p95, last {duration(cells * CELL_SECONDS)}"
    return text if len(text) <= cells else ""


def _lane(cells: list[str | Text], room: int, style: str = "") -> RenderableType:
    widths = (NAME, *(-width for width in COLUMNS.values()), room)
    return row(*zip(cells, widths, strict=True), style=style)


def _slots(everything: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    parts = slots_of(everything)
    words = ("interactive", "batch", "kept in reserve", "free")
    said = ", ".join(
        f"{number} {word}" for number, word in zip(parts, words, strict=True) if number
    )
    room = max(width - NAME - len(said) - 3, 8)
    yield Text.assemble(
        "slots".ljust(NAME + 1), strip(parts, room), f"  {said}", no_wrap=True, overflow="ellipsis"
    )


def _share(picture: Picture, everything: Mapping[str, Any]) -> RenderableType:
    share = everything["share"]
    received = "not measured yet" if share["received"] is None else percent(share["received"])
    return line(
        f"{'batch share':<{NAME}} received {received}, guaranteed {percent(share['guaranteed'])}; "
        f"last start {ago(everything['last_batch_start'], picture.at)}"
    )


def _shared(everything: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The engine behind the tasks and what all workers share, where that is set."""
    for label, lines in (
        ("engine", engine_lines(everything)),
        ("resources", resource_lines(everything["resources"])),
    ):
        for words, style in list(lines)[:MOST_SHARED]:
            yield line(f"{label:<{NAME}} ", (words, "yellow" if style == ODD else ""))
            label = ""


def _idle(picture: Picture) -> Iterator[RenderableType]:
    """Slots that stand idle though something waits, and why."""
    summed: dict[str, float] = {}
    for worker in picture.workers:
        for reason, slots in worker.idle_slots().items():
            summed[reason] = summed.get(reason, 0.0) + slots
    ranked = sorted(summed.items(), key=lambda item: -item[1])
    said = ", ".join(f"{slots:.1f} {reason}" for reason, slots in ranked if slots >= LEAST_IDLE)
    if said:
        yield line(f"{'idle slots':<{NAME}} {said} (while something waits)")


def _foot(picture: Picture) -> list[RenderableType]:
    keys = "   q quits" if picture.live else "   waits: last 5 min"
    return [line((LEGEND + keys, "dim"))]
