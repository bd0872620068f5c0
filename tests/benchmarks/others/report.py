"""The report: one HTML file with its plots in it, and the tables for docs/comparison.md."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.others.contestants import CONTESTANTS, NOT_MEASURED
from tests.benchmarks.others.figures import (
    HEADINGS,
    Row,
    Run,
    cells,
    markdown,
    rows,
    spread,
    unpaired,
)

BEGIN = "<!-- comparison: written by `make compare` -->"
END = "<!-- end of comparison -->"
LEAST_SECONDS = 0.001
OURS = "#0b6e99"
THEIRS = "#8a8f98"
IDEALS = "#5b8c5a"
IDEAL = "interactive-only"
LABEL_WIDTH, LABEL_HEIGHT = 140, 12
"""In pixels: what a name takes, beside its point."""

LOADS = {
    "mixed": (
        "Eight slots. Batch without end, lognormal run times (median 1.2 s, mean 2 s, at most "
        "15 s); interactive tasks at 4 a second, lognormal too (median 50 ms)."
    ),
    "bursts": "The same batch; 30 interactive tasks at once every five seconds.",
    "flood": (
        "The same batch; interactive tasks at one and a half times what eight slots can do "
        "(60 a second, median 0.18 s). Whoever serves them strictly first gives batch nothing."
    ),
}

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #8886; text-align: right; }
th:first-child, td:first-child, .words td { text-align: left; }
td { white-space: nowrap; }
.words td { white-space: normal; }
tr.ours td { font-weight: 600; }
tr.failed td { color: #b3261e; }
figure { margin: 1rem 0; background: #fff; padding: .5rem; }
svg { max-width: 100%; height: auto; }
.bad { color: #b3261e; font-weight: 600; }
"""


def page(runs: Sequence[Run]) -> str:
    """The whole report."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>celery-fair beside other ways</title><style>{STYLE}</style>",
        "<h1>celery-fair beside other ways</h1>",
        f"<p>{_text(_conditions(runs))}</p>",
        *(f"<p class='bad'>Not paired: {_text(which)}</p>" for which in unpaired(runs)),
        "<p>Waits are in seconds, from publish to the first line of the task. ≥: some had not "
        "started when last looked at, and count with the time they had waited by then. × fifo: "
        "batch's slot time beside that of one plain queue under the same arrivals.</p>",
    ]
    for load, what in LOADS.items():
        if found := rows(runs, load):
            parts += [f"<h2>{load}</h2><p>{_text(what)}</p>", _table(found)]
            parts += [f"<figure>{drawing}</figure>" for drawing in _drawings(found)]
            parts.append(_failures(found))
    parts += [_who(runs), _wanting()]
    return "\n".join(parts)


def tables(runs: Sequence[Run]) -> str:
    """The same figures for the docs page."""
    parts = [_conditions(runs)]
    for load, what in LOADS.items():
        if found := rows(runs, load):
            parts += [f"### {load}", what, markdown(found), *_failure_lines(found)]
    return "\n\n".join(parts)


def write_into(path: Path, text: str) -> None:
    """Replace what stands between the page's two markers."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _conditions(runs: Sequence[Run]) -> str:
    done = [run for run in runs if "failed" not in run]
    seeds = len({run["seed"] for run in runs})
    if not done:
        return f"Seeds: {seeds}. No run succeeded."
    times = sorted(datetime.fromisoformat(run["began"]["at"]) for run in done)
    loads = [run["began"]["load_average"][0] for run in done]
    busy = [run["busy"]["cpu_busy"] for run in done]
    where = done[-1]["machine"]
    return (
        f"Seeds: {seeds}. {where['cpus']} CPUs, {where['system']}; "
        f"{times[0]:%Y-%m-%d %H:%M} to {times[-1]:%H:%M} UTC; load average {min(loads):.1f} to "
        f"{max(loads):.1f}, CPU {min(busy):.0%} to {max(busy):.0%} busy. {_versions(done)}."
    )


def _versions(done: Iterable[Run]) -> str:
    found: dict[str, set[str]] = {}
    for run in done:
        for package, version in run["versions"].items():
            found.setdefault(package, set()).add(version)
        name, _, version = run["server"].partition(" ")
        found.setdefault(name, set()).add(version)
    named = (f"{name} {' and '.join(sorted(some))}" for name, some in found.items())
    commit = next((run["machine"]["commit"] for run in done if run["machine"]["commit"]), "")
    return ", ".join(named) + (f", commit {commit}" if commit else "")


def _table(found: Sequence[Row]) -> str:
    head = "".join(f"<th>{_text(heading)}</th>" for heading in HEADINGS)
    body = "".join(_table_row(row) for row in found)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"


def _table_row(row: Row) -> str:
    kind = "failed" if row.failures else "ours" if row.contestant.startswith("fair") else ""
    inner = "".join(f"<td>{_text(cell)}</td>" for cell in cells(row))
    return f"<tr class='{kind}'>{inner}</tr>"


def _failure_lines(found: Sequence[Row]) -> list[str]:
    return [
        f"- `{row.contestant}`, seed {run['seed']}, failed: {run['failed']}"
        for row in found
        for run in row.failures
    ]


def _failures(found: Sequence[Row]) -> str:
    return "".join(f"<p class='bad'>{_text(line[2:])}</p>" for line in _failure_lines(found))


def _who(runs: Sequence[Run]) -> str:
    names = {run["contestant"] for run in runs}
    lines = "".join(
        f"<tr><td>{one.name}</td><td>{one.broker}</td><td>{_text(one.what)}</td>"
        f"<td>{_text(one.docs)}</td></tr>"
        for one in CONTESTANTS.values()
        if one.name in names
    )
    return f"<h2>Who is measured</h2><div class='wide'><table class='words'>{lines}</table></div>"


def _wanting() -> str:
    lines = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(why)}</td></tr>"
        for name, why in NOT_MEASURED.items()
    )
    return f"<h2>Found, and not measured</h2><table class='words'>{lines}</table>"


def _text(text: str) -> str:
    return html.escape(text)


def _drawings(found: Sequence[Row]) -> list[str]:
    some = [row for row in found if row.waits]
    return [_gain_and_cost(some), _distributions(some)] if some else []


def _gain_and_cost(found: Sequence[Row]) -> str:
    """Each contestant as a point: what interactive tasks wait, and what is left to batch."""
    plot = _pyplot()
    figure, axis = plot.subplots(figsize=(10, 6.5), layout="constrained")
    axis.set_xscale("log")
    for row in found:
        wait, exact = row.wait(0.95)
        x, y = max(wait, LEAST_SECONDS), row.batch_share
        if row.contestant == IDEAL:
            axis.axvline(x, color=IDEALS, linestyle=":", label="without any batch")
            axis.legend(fontsize=8, loc="lower left")
            continue
        low, high = spread(row, lambda one: max(one.wait(0.95)[0], LEAST_SECONDS))
        axis.plot([low, high], [y, y], color=_colour(row), linewidth=1, alpha=0.6)
        axis.plot(x, y, marker="o" if exact else ">", color=_colour(row), markersize=6)
    _label(figure, axis, [row for row in found if row.contestant != IDEAL])
    axis.set_xlabel("interactive wait, p95, s (further left is better; ▸: at least so long)")
    axis.set_ylabel("batch's part of all slot time (higher is better)")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    return _svg(plot, figure)


def _label(figure: Any, axis: Any, found: Sequence[Row]) -> None:
    """Names beside the points, moved down where another is in the way."""
    figure.draw_without_rendering()
    taken: list[tuple[float, float]] = []
    for row in sorted(found, key=lambda row: -row.batch_share):
        x = max(row.wait(0.95)[0], LEAST_SECONDS)
        left, height = axis.transData.transform((x, row.batch_share))
        at = height
        while any(abs(left - x_) < LABEL_WIDTH and abs(at - y_) < LABEL_HEIGHT for x_, y_ in taken):
            at -= 1
        taken.append((left, at))
        place = {"xytext": (7, (at - height) * 72 / figure.dpi - 3), "textcoords": "offset points"}
        axis.annotate(row.contestant, (x, row.batch_share), color=_colour(row), fontsize=8, **place)


def _distributions(found: Sequence[Row]) -> str:
    """What part of the interactive tasks had started after so long."""
    plot = _pyplot()
    figure, axis = plot.subplots(figsize=(10, 5.5), layout="constrained")
    styles = ("-", "--", ":", "-.")
    colours = plot.get_cmap("tab20").colors
    for index, row in enumerate(found):
        waits = row.waits
        started = [max(seconds, LEAST_SECONDS) for seconds, started in waits if started]
        parts = [(number + 1) / len(waits) for number in range(len(started))]
        ours = row.contestant.startswith("fair")
        axis.step(
            started or [math.nan],
            parts or [math.nan],
            where="post",
            label=row.contestant,
            linewidth=2.6 if ours else 1.1,
            color=OURS if ours else colours[index % len(colours)],
            linestyle=styles[index % len(styles)],
        )
    axis.set_xscale("log")
    axis.set_xlabel("s from publish")
    axis.set_ylabel("part of the interactive tasks that had started")
    axis.legend(fontsize=7, loc="lower right", ncols=2)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    return _svg(plot, figure)


def _colour(row: Row) -> str:
    return OURS if row.contestant.startswith("fair") else THEIRS


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _svg(plot: Any, figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg")
    plot.close(figure)
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]
