"""Results on disk, so that the figures can be measured in parts, and the table made of them.

A folder a cell, each with its ``result.json``; ``results.json`` above them is all of those, judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.figures import BROKERS, FIGURES, POOLS, Figure, figures_of
from tests.benchmarks.judging import Finding, Measurement

BEGIN = "<!-- figures: written by `make bench` -->"
END = "<!-- end of figures -->"

Result = Mapping[str, Any]


def judge(figure: Figure, result: Result) -> list[Finding]:
    """What each check of the figure finds."""
    measurement = Measurement(result["broker"], result["load"], result["contestants"])
    return [check.judge(measurement) for check in figure.checks]


def verdict(figure: Figure, result: Result) -> tuple[bool, str]:
    """Whether the figure holds, and a sentence that marks what doesn't."""
    findings = judge(figure, result)
    texts = [finding.text + ("" if finding.passed else " (missed)") for finding in findings]
    return all(finding.passed for finding in findings), "; ".join(texts)


def room(output: Path, cell: str) -> Path:
    """A folder to measure in that isn't there yet: an older result stays until there is a newer."""
    folder = output / "unfinished" / cell
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def save(result: Result, folder: Path) -> None:
    """Put the result with all that is in its ``room`` in the place of an older one."""
    _write(folder / "result.json", json.dumps(result, indent=1))
    place = folder.parents[1] / folder.name
    shutil.rmtree(place, ignore_errors=True)
    folder.rename(place)


def load(output: Path) -> dict[str, Result]:
    """All results below ``output`` by the name of their cell."""
    found = {}
    for path in sorted(output.glob("*/result.json")):
        with contextlib.suppress(FileNotFoundError):  # another command is putting a newer there
            found[path.parent.name] = json.loads(path.read_text())
    return found


def collect(output: Path) -> str:
    """Write ``results.json`` and ``figures.md`` of all that is below ``output``; the table."""
    results = load(output)
    document = {name: {**result, "figures": _judged(result)} for name, result in results.items()}
    _write(output / "results.json", json.dumps(document, indent=1))
    text = table(results.values())
    _write(output / "figures.md", text)
    return text


def _judged(result: Result) -> dict[str, Any]:
    return {
        figure.name: {
            "passed": verdict(figure, result)[0],
            "checks": [
                {"bound": check.bound, **asdict(finding)}
                for check, finding in zip(figure.checks, judge(figure, result), strict=True)
            ],
        }
        for figure in figures_of(result["run"])
    }


def table(results: Iterable[Result]) -> str:
    """The figures in Markdown: bounds once, then a row for each pool and broker."""
    by_cell = {(result["run"], result["pool"], result["broker"]): result for result in results}
    if not by_cell:
        return "Nothing has been measured yet.\n"
    lines = [_where(list(by_cell.values())), ""]
    for figure in FIGURES:
        cells = [(figure.run, pool, broker) for pool in POOLS for broker in BROKERS]
        rows = [_row(figure, by_cell[cell]) for cell in cells if cell in by_cell]
        if rows:
            bounds = "; ".join(check.bound for check in figure.checks)
            head = ["| pool | broker | measured | holds | when |", "|---|---|---|---|---|"]
            lines += [f"### {figure.name}", "", f"{bounds}.", "", *head, *rows, ""]
    return "\n".join(lines)


def _row(figure: Figure, result: Result) -> str:
    passed, text = verdict(figure, result)
    began = result["began"]
    when = f"{began['at'][:16]}Z, load {began['load_average'][0]:g}"
    if result["overrides"] or result["rounds"] < 5:
        when += f", {result['rounds']} rounds, {dict(result['overrides'])}"
    return (
        f"| {result['pool']} | {result['broker']} | {text} | {'yes' if passed else 'no'} | {when} |"
    )


def _where(results: list[Result]) -> str:
    """One sentence on the machine; of what differs between results, all values."""

    def values(name: str) -> str:
        return ", ".join(sorted({str(result["machine"][name]) for result in results}))

    rounds = ", ".join(sorted({str(result["rounds"]) for result in results}))
    return (
        f"Rounds pooled: {rounds}. {values('cpus')} CPUs, {values('system')}, "
        f"Python {values('python')}, Celery {values('celery')}, kombu {values('kombu')}, "
        f"{values('broker')}, celery-fair {values('celery-fair')} ({values('commit')}). "
        "Times are UTC; load is the machine's load average when the run began."
    )


def write_into(page: Path, text: str) -> None:
    """Replace what stands between the page's two markers."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    _write(page, f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}")


def _write(path: Path, text: str) -> None:
    """Whole or not at all: another run may be reading it."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(path)
