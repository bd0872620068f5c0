"""Measures the figures: ``python -m tests.benchmarks --help``."""

from __future__ import annotations

import argparse
import signal
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from tests.benchmarks import results, ruler, servers
from tests.benchmarks.figures import BROKERS, POOLS, RUNS, figures_of
from tests.benchmarks.measuring import Cell, Options, measure

OVERRIDES = ("duration", "warmup", "grace", "tasks")
BUILD = ruler.ROOT / "build"
PAGE = ruler.ROOT / "docs" / "benchmarks.md"


def main() -> int:
    options = _parser().parse_args()
    overrides = {name: getattr(options, name) for name in OVERRIDES if getattr(options, name)}
    # A trial run must not take the place of a real one.
    real = not overrides and options.rounds >= 5
    output = options.output or BUILD / ("benchmarks" if real else "benchmarks-trial")
    output = output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    failures = 0
    if not options.table_only:
        if reason := ruler.why_not():
            print(reason)
            return 2
        measuring = Options(options.rounds, overrides, options.lean)
        failures = _measure_all(list(_cells(options)), measuring, output, options.parallel)
    text = results.collect(output)
    if real and not options.no_page:
        results.write_into(PAGE, text)
    print(f"\n{output / 'results.json'}, {output / 'figures.md'}: {failures} missed or failed")
    return 1 if failures else 0


def _cells(options: argparse.Namespace) -> Iterator[Cell]:
    for run in RUNS:
        for pool in options.pools:
            for broker in options.brokers:
                if options.only and run.name not in options.only:
                    continue
                if reason := servers.why_not(broker):
                    print(f"{run.name}-{pool}-{broker}: skipped, {reason}")
                else:
                    yield Cell(run, pool, broker)


def _measure_all(cells: list[Cell], options: Options, output: Path, parallel: int) -> int:
    """Measure side by side what can be, then the rest one by one; how many figures missed."""
    # SIGINT too: a shell's background job ignores it, and so would the ruler below it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    done = failures = 0
    side_by_side = [cell for cell in cells if not cell.run.alone]
    one_by_one = [cell for cell in cells if cell.run.alone]
    for some, at_once in ((side_by_side, parallel), (one_by_one, 1)):
        for cell, outcome, took in _outcomes(some, options, output, at_once):
            done += 1
            print(f"[{done}/{len(cells)}] {cell}, {took:.0f} s", flush=True)
            failures += _report(cell, outcome, output)
    return failures


Outcome = tuple[Cell, "dict | Exception", float]


def _outcomes(
    cells: Iterable[Cell], options: Options, output: Path, at_once: int
) -> Iterator[Outcome]:

    def one(cell: Cell) -> Outcome:
        began = time.monotonic()
        outcome: dict | Exception
        try:
            # The server dies with the thread that started it: all of this stays in one.
            outcome = measure(cell, options, results.room(output, str(cell)))
        except Exception as error:
            outcome = error
        return cell, outcome, time.monotonic() - began

    with ThreadPoolExecutor(at_once) as pool:
        waiting: set[Future[Outcome]] = {pool.submit(one, cell) for cell in cells}
        try:
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            ruler.interrupt_all()
            raise


def _report(cell: Cell, outcome: dict | Exception, output: Path) -> int:
    """Print a line a figure, and keep the result; how many missed."""
    folder = output / "unfinished" / str(cell)
    if isinstance(outcome, Exception):
        log = folder / "failure.txt"
        log.write_text("".join(traceback.format_exception(outcome)))
        first = str(outcome).partition("\n")[0]
        print(f"    failed: {type(outcome).__name__}: {first}; see {log}", flush=True)
        return 1
    results.save(outcome, folder)
    results.collect(output)
    missed = 0
    for figure in figures_of(cell.run.name):
        passed, text = results.verdict(figure, outcome)
        missed += not passed
        print(f"    {'holds ' if passed else 'MISSED'} {figure.name}: {text}", flush=True)
    return missed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure the figures that celery-fair promises, beside stock Celery.",
    )
    add = parser.add_argument
    add("--only", type=_among([run.name for run in RUNS]), help="runs, comma-separated")
    add("--pools", type=_among(POOLS), default=POOLS)
    add("--brokers", type=_among(BROKERS), default=BROKERS)
    add("--rounds", type=int, default=5)
    add("--parallel", type=int, default=1, help="runs side by side, save those of CPU")
    add("--lean", action="store_true", help="leave out contestants that no figure needs")
    add("--duration", type=float, help="override: seconds measured")
    add("--warmup", type=float, help="override: seconds before")
    add("--grace", type=float, help="override: seconds to wait for late starts")
    add("--tasks", type=int, help="override: no-op tasks a round")
    add("--output", type=Path, help="default: build/benchmarks, or -trial for less than it takes")
    add("--table-only", action="store_true", help="judge and write again what is in the output")
    add("--no-page", action="store_true", help="leave docs/benchmarks.md as it is")
    return parser


def _among(known: Iterable[str]):
    names = tuple(known)

    def parse(text: str) -> tuple[str, ...]:
        wanted = tuple(text.split(","))
        for name in wanted:
            if name not in names:
                raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(names)}")
        return wanted

    return parse


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(f"interrupted; what was finished is kept below {BUILD}") from None
