"""The workers in `top`: a block each if all fit, else a line each, and the rest in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from celery_fair.cli.top_signs import slots_of, sparkline, strip
from celery_fair.cli.top_waits import CELLS
from celery_fair.cli.top_watch import Picture, Seen
from celery_fair.cli.words import count, duration, percent, plural
from celery_fair.observe.steering import stops
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind

BLOCK: Final = 4
"""Lines of a block, with the empty one above it."""
GATE_STYLES: Final = {"open": "green", "protected": "bold yellow"}
LEAST_IDLE: Final = 0.05
"""Less of a slot is as good as none."""
STRIP: Final = 16
"""Characters for the slots of one worker."""


def worker_rows(picture: Picture, width: int, height: int) -> Iterator[RenderableType]:
    """Rows about the workers: so many at the most."""
    workers = picture.workers
    if len(workers) * BLOCK <= min(height, BLOCKS * BLOCK):
        for worker in workers:
            yield from _block(picture, worker, width)
        return
    room = height - 2  # an empty line, and the names of the columns
    shown = workers if len(workers) <= room else workers[: max(room - 1, 0)]
    if room >= 1:
        yield Text("") if _widths(width)[-1] else _shut(workers)
        yield _names(width)
        yield from (_line(picture, worker, width) for worker in shown)
    rest = workers[len(shown) :]
    if rest and height >= 1:
        yield _rest(picture, rest, bool(shown))


BLOCKS: Final = 12
"""More workers are easier to compare in lines, however tall the screen."""


def _gate(picture: Picture, worker: Seen) -> Text:
    gate = worker.facts["gate"]
    mode = "observing" if worker.facts["mode"] == "observe" else gate["mode"]
    text = Text(f"{mode} {duration(picture.at - gate['since'])}", no_wrap=True, overflow="ellipsis")
    text.stylize(GATE_STYLES.get(gate["mode"], ""))
    return text


def _reason(worker: Seen) -> str:
    gate = worker.facts["gate"]
    said = [words for words, _ in stops(worker.facts)]
    said += ["queues can't be read"] if gate["blind"] else []
    return "; ".join([*said, gate["reason"]])


def _block(picture: Picture, worker: Seen, width: int) -> Iterator[RenderableType]:
    yield Text("")
    head = Text(_cut(worker.name, 40), style="bold", no_wrap=True, overflow="ellipsis")
    head.append("  gate ", style="not bold").append(_gate(picture, worker))
    yield head.append(f"  {_reason(worker)}", style="not bold")
    share = worker.facts["share"]
    received = f"got {percent(share['received'])}, due {percent(share['guaranteed'])}"
    strips = (strip(slots_of(worker.facts), STRIP), Text(""))
    for kind, slots, aside in zip(KINDS, strips, (_idle(worker), received), strict=True):
        yield _lane(picture, worker, kind, slots, Text(aside), width)


LANE: Final = (STRIP, 11, 8, 8, 20)
"""Widths of a lane's slots, kind, what it holds, its wait, and what stands at its end."""


def _lane(
    picture: Picture, worker: Seen, kind: Kind, slots: Text, aside: Text, width: int
) -> RenderableType:
    part = worker.facts["kinds"][kind]
    room = max(width - sum(LANE) - len(LANE), 0)
    waits = worker.waits.line(kind, picture.now, min(room, CELLS)) if picture.live else ()
    return row(
        (slots, LANE[0]),
        (kind if part["queues"] else f"({kind})", LANE[1]),
        (f"{count(part['held'])} held", -LANE[2]),
        (duration(picture.wait(worker, kind)), -LANE[3]),
        (sparkline(waits, kind), room),
        (aside, -LANE[4]),
    )


def row(*cells: tuple[str | Text, int], style: str = "") -> RenderableType:
    """One line of columns of these widths, with a space between; a negative one is flush right."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for _, width in cells:
        justify: JustifyMethod = "right" if width < 0 else "left"
        table.add_column(width=abs(width), justify=justify, no_wrap=True, overflow="ellipsis")
    table.add_row(
        *(Text(cell) if isinstance(cell, str) else cell for cell, _ in cells), style=style
    )
    return table


def _cut(name: str, width: int) -> str:
    """The end of a long name: there, many names differ."""
    if cell_len(name) <= width:
        return name
    while name and cell_len(name) >= width:
        name = name[1:]
    return f"…{name}"


def _idle(worker: Seen) -> str:
    """The chief reason of slots that stand idle though something waits."""
    found = worker.idle_slots()
    reason = max(found, key=lambda one: found[one], default="")
    return f"idle {found[reason]:.1f}: {reason}" if found.get(reason, 0) >= LEAST_IDLE else ""


def _widths(width: int) -> tuple[int, ...]:
    """Of the columns of the list: the reason of the gate is there if there is room for it."""
    fixed = (STRIP, 16, -8, -8, -8)
    room = max(width - sum(map(abs, fixed)) - len(fixed) - 1, 0)
    name = room if room < 50 else 32
    return name, *fixed, max(room - name - 1, 0)


def _names(width: int) -> RenderableType:
    names = ("worker", "slots", "gate", "I p95", "B p95", "held I/B", "reason of the gate")
    return row(*zip(names, _widths(width), strict=True), style="dim")


def _line(picture: Picture, worker: Seen, width: int) -> RenderableType:
    kinds, widths = worker.facts["kinds"], _widths(width)
    cells: tuple[str | Text, ...] = (
        _cut(worker.name, widths[0]),
        strip(slots_of(worker.facts), STRIP),
        _gate(picture, worker),
        duration(picture.wait(worker, INTERACTIVE)),
        duration(picture.wait(worker, BATCH)),
        f"{kinds[INTERACTIVE]['held']}/{kinds[BATCH]['held']}",
        _reason(worker),
    )
    return row(*zip(cells, widths, strict=True))


def _shut(workers: Sequence[Seen]) -> RenderableType:
    """Why the first gate is shut that is, where lines have no room for it."""
    shut = next((worker for worker in workers if worker.facts["gate"]["mode"] != "open"), None)
    if shut is None:
        return Text("")
    text = f"{'shut gate':<11} {_reason(shut)} ({_cut(shut.name, 20)})"
    return Text(text, no_wrap=True, overflow="ellipsis")


def _rest(picture: Picture, rest: Sequence[Seen], more: bool) -> RenderableType:
    """All that there is no room for."""
    slots = [slots_of(worker.facts) for worker in rest]
    interactive, batch, *free = (sum(part) for part in zip(*slots, strict=True))
    shut = sum(worker.facts["gate"]["mode"] != "open" for worker in rest)
    worst = max((picture.wait(worker, INTERACTIVE) or 0.0 for worker in rest), default=0.0)
    text = (
        f"{f'and {len(rest)} more' if more else plural(len(rest), 'worker')}: "
        f"{interactive} interactive, {batch} batch, {sum(free)} free; {shut} not open; "
        f"I p95 up to {duration(worst)}"
    )
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")
