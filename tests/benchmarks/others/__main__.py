"""Measures celery-fair beside other ways: ``python -m tests.benchmarks.others --help``."""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path

from tests.benchmarks import ruler, servers
from tests.benchmarks.__main__ import _among
from tests.benchmarks.others import figures, loads, report
from tests.benchmarks.others.contestants import CONTESTANTS
from tests.benchmarks.others.running import run_all, trials

PAGE = ruler.ROOT / "docs" / "comparison.md"


def main() -> int:
    options = _parser().parse_args()
    folder = options.output.resolve()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    if not options.report_only:
        if reason := ruler.why_not():
            print(reason)
            return 2
        _measure(options, folder)
    runs = figures.read(folder)
    options.report.write_text(report.page(runs))
    text = report.tables(runs)
    if options.page:
        report.write_into(PAGE, text)
    print(f"{text}\n\n{options.report}")
    unpaired = figures.unpaired(runs)
    if unpaired:
        print(f"not paired: {'; '.join(unpaired)}: were they run with the same --duration?")
    return 1 if unpaired else 0


def _measure(options: argparse.Namespace, folder: Path) -> None:
    # SIGINT too: a shell's background job ignores it, and so would the trials below.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    names = [name for name in options.only if not _skipped(name)]
    wanted = trials(options.loads, options.seeds, names)
    began = time.monotonic()
    found = run_all(wanted, folder, options.parallel, options.duration)
    for count, (trial, run) in enumerate(found, 1):
        took = time.monotonic() - began
        outcome = f"failed: {run['failed']}" if "failed" in run else "done"
        print(f"[{count}/{len(wanted)}, {took:.0f} s] {trial}: {outcome}", flush=True)


def _skipped(name: str) -> bool:
    reason = servers.why_not(CONTESTANTS[name].broker)
    if reason:
        print(f"{name}: skipped, {reason}")
    return bool(reason)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.others",
        description="Measure celery-fair beside what a user would pick instead.",
    )
    add = parser.add_argument
    build = ruler.ROOT / "build"
    names = tuple(CONTESTANTS)
    add("--loads", type=_among(loads.NAMES), default=loads.NAMES, help="comma-separated")
    add("--only", type=_among(names), default=names, help="contestants, comma-separated")
    add("--seeds", type=int, default=3)
    add("--parallel", type=int, default=1, help="trials side by side")
    add("--duration", type=float, help="override: seconds measured")
    add("--output", type=Path, default=build / "comparison", help="what was measured is kept here")
    add("--report", type=Path, default=build / "comparison.html", help="one file, plots and all")
    add("--report-only", action="store_true", help="write again what is in the output")
    add("--page", action="store_true", help="write the tables into docs/comparison.md")
    return parser


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit("interrupted; what was finished is kept") from None
