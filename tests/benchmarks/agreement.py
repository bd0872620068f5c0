"""How near simulated figures are to measured ones, as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOLERANCE = 0.15
SMALL_SECONDS = 0.05
"""Of waits up to here the machine has a part in each: the kernel, Python, the journal."""
SMALL_TOLERANCE = 0.010
BEGIN, END = "<!-- agreement -->", "<!-- end of agreement -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant under one load."""

    scenario: str
    broker: str
    rounds: int
    name: str
    measured: dict[str, float]
    simulated: dict[str, float]
    load_average: float

    def agrees(self, figure: str) -> bool:
        """Whether the simulated figure is within the bound of the measured one."""
        real, found = self.measured[figure], self.simulated[figure]
        if real is None or math.isnan(found):
            return (real is None) == math.isnan(found)
        if figure != "batch" and real <= SMALL_SECONDS:
            return abs(found - real) <= SMALL_TOLERANCE
        return abs(found - real) <= TOLERANCE * real + 1e-9

    @property
    def holds(self) -> bool:
        """Whether all three do."""
        return all(map(self.agrees, ("p50", "p95", "batch")))


def table(rows: Sequence[Row]) -> str:
    """Measured → simulated, with what is off marked."""
    if not rows:
        return "Nothing has been measured yet.\n"
    held = sum(row.agrees(figure) for row in rows for figure in ("p50", "p95", "batch"))
    lines = [
        f"{held} of {3 * len(rows)} figures are within the bound. Measured → simulated.",
        "",
        "| load | broker | contestant | wait p50, s | p95, s | batch/s | rounds, load average |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [_cell(row, figure) for figure in ("p50", "p95", "batch")]
        lines.append(
            f"| {row.scenario} | {row.broker} | {row.name} | {' | '.join(cells)} "
            f"| {row.rounds}, {row.load_average:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _cell(row: Row, figure: str) -> str:
    real, found = row.measured[figure], row.simulated[figure]
    digits = 2 if figure == "batch" else 3
    said = "–" if real is None else f"{real:.{digits}f}"
    text = f"{said} → {found:.{digits}f}"
    return text if row.agrees(figure) else f"{text} **off**"


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the page's two markers, or behind the first."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after if found else rest}")
