"""The picture of a simulation, as PNG or SVG: waits, batch rates, and slots over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from celery_fair.policy import BATCH, INTERACTIVE, KINDS
from celery_fair.sim.experiment import Band, Outcome

FORMATS: Final = (".png", ".svg")
LINEAR_SECONDS: Final = 0.1
"""Waits are drawn in proportion up to here, and by powers of ten above."""
COLOURS: Final = {INTERACTIVE: "#0b6e99", BATCH: "#d98324"}


def pyplot() -> Any:
    """Import matplotlib's interface for files; an `ImportError` tells which extra brings it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as found

    return found


def draw(outcomes: Sequence[Outcome], slots: int, seconds: float, head: str, path: Path) -> None:
    """Write the picture; the suffix of ``path`` says the format."""
    plot = pyplot()
    rows = len(outcomes)
    figure = plot.figure(figsize=(10, 2.4 + 1.5 * rows), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1 + 0.3 * rows, 1.2 * rows))
    waits, rates = above.subplots(1, 2, sharey=True)
    _bars(waits, outcomes, [one.of[INTERACTIVE].waits["p95"] for one in outcomes], INTERACTIVE)
    waits.invert_yaxis()
    waits.set_xscale("symlog", linthresh=LINEAR_SECONDS)
    waits.set_title("interactive wait, p95, s", fontsize=9)
    _bars(rates, outcomes, [one.of[BATCH].rate for one in outcomes], BATCH)
    rates.set_title("batch tasks a second", fontsize=9)
    axes = below.subplots(rows, 1, sharex=True, squeeze=False)
    for one, (axis,) in zip(outcomes, axes, strict=True):
        _over_time(axis, one, slots, seconds)
    axes[0][0].legend(loc="lower right", fontsize=7)
    axes[-1][0].set_xlabel("s")
    figure.suptitle(_literal(head), fontsize=10)
    figure.savefig(path, dpi=110)
    plot.close(figure)


def _bars(axis: Any, outcomes: Sequence[Outcome], bands: Sequence[Band], kind: str) -> None:
    values = [0.0 if math.isnan(band.mean) else band.mean for band in bands]
    errors = [0.0 if math.isnan(band.spread) else band.spread for band in bands]
    axis.barh(range(len(bands)), values, xerr=errors, color=COLOURS[kind], capsize=3)
    axis.set_yticks(range(len(bands)), [_literal(one.name) for one in outcomes])
    axis.spines[["top", "right"]].set_visible(False)


def _over_time(axis: Any, one: Outcome, slots: int, seconds: float) -> None:
    parts = [[*one.busy[kind], one.busy[kind][-1]] for kind in KINDS]  # each step has two ends
    steps = len(parts[0]) - 1
    times = [seconds * index / steps for index in range(steps + 1)]
    colours = [COLOURS[kind] for kind in KINDS]
    axis.stackplot(times, *parts, colors=colours, labels=KINDS, step="post")
    axis.set_xlim(0, seconds)
    axis.set_ylim(0, slots)
    axis.set_title(f"{_literal(one.name)}: slots in use", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def _literal(text: str) -> str:
    """Names as they are: what stands between two dollars would be set as a formula."""
    return text.replace("$", r"\$")
