"""The picture of the trade-off: interactive waits against batch, with today's and the advice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from celery_fair.advise.advice import Advice
from celery_fair.advise.targets import Wait
from celery_fair.advise.verdict import Verdict
from celery_fair.cli.simulate_plot import COLOURS, LINEAR_SECONDS, pyplot
from celery_fair.policy import BATCH, INTERACTIVE


def wait_of(found: Verdict) -> float:
    """The first wait that was asked for."""
    return next(one.value.mean for one in found.readings if isinstance(one.target, Wait))


def draw(found: Advice, path: Path) -> None:
    """Write the picture; the suffix of ``path`` says the format."""
    plot = pyplot()
    target = next(one for one in found.targets if isinstance(one, Wait))
    figure, axis = plot.subplots(figsize=(8, 5), layout="constrained")
    for points, colour in (
        (found.curve, COLOURS[INTERACTIVE]),
        (found.curve_today, COLOURS[BATCH]),
    ):
        if points:
            slots = points[0].candidate.slots
            axis.plot(*_xy(points), "o-", color=colour, label=f"{slots} slots, by reserve")
            for one in points:
                at = one.batch_rate.mean * 3600, wait_of(one)
                axis.annotate(str(one.candidate.settings.reserve), at, fontsize=7)
    for verdict, mark, label in ((found.today, "X", "today"), (found.best, "*", "advice")):
        if verdict is not None:
            axis.plot(*_xy([verdict]), mark, color="black", markersize=11, label=label)
    axis.axhline(target.seconds, color="grey", linestyle="--", label=target.name)
    axis.set_yscale("symlog", linthresh=LINEAR_SECONDS)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("batch tasks an hour")
    axis.set_ylabel(f"{target.kind} wait, p{target.quantile * 100:g}, s")
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    plot.close(figure)


def _xy(points: Sequence[Verdict]) -> tuple[list[float], list[float]]:
    return [one.batch_rate.mean * 3600 for one in points], [wait_of(one) for one in points]
