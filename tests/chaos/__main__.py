"""A seeded chaos run of celery-fair, and of plain Celery beside it: ``python -m tests.chaos``."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.brokers.rabbitmq import script
from tests.chaos import report
from tests.chaos.plan import Plan, make_plan
from tests.chaos.run import Chaos, Outcome

BROKERS = ("redis", "rabbitmq")
POOLS = ("prefork", "threads", "gevent", "eventlet")


def main() -> int:
    options = _parser().parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    plan = make_plan(
        seed,
        tasks=options.tasks,
        broker=options.broker,
        pool=options.pool,
        workers=options.workers,
    )
    print(plan.text(), flush=True)
    if options.dry_run:
        return 0
    if options.broker == "rabbitmq" and not script("rabbitmq-server"):
        print("rabbitmq-server is not installed")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = options.output or Path(tempfile.mkdtemp(prefix="fair-chaos-"))
    outcomes = [
        _run(plan, folder / ("stock" if stock else "fair"), stock, options)
        for stock in _contestants(options.only)
    ]
    failed = _judge(outcomes)
    print(f"journals and logs: {folder.resolve()}")
    return 1 if failed else 0


def _contestants(only: str | None) -> list[bool]:
    return {"fair": [False], "stock": [True], None: [False, True]}[only]


def _run(plan: Plan, folder: Path, stock: bool, options: argparse.Namespace) -> Outcome:
    chaos = Chaos(plan, folder, stock=stock, naive="" if stock else options.naive)
    outcome = chaos.run(options.minutes * 60)
    print(report.text(outcome), flush=True)
    return outcome


def _judge(outcomes: list[Outcome]) -> bool:
    """Print what is wrong with celery-fair's run, and its histories; whether anything is."""
    fair = next((outcome for outcome in outcomes if not outcome.stock), None)
    if fair is None:
        return False
    failures = report.failures(fair)
    stock = next((outcome for outcome in outcomes if outcome.stock), None)
    if stock is not None:
        failures += report.compared(fair, stock)
    if failures:
        plan = fair.plan
        print(f"FAILED with seed {plan.seed} ({plan.broker}, {plan.pool}):")
        print("\n".join(f"  {failure}" for failure in failures))
    print("\n".join(report.histories(fair)))
    return bool(failures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, help="of the plan; drawn unless given, and printed")
    add("--tasks", type=int, default=10_000)
    add("--minutes", type=float, default=15.0, help="at the most, for each of the two runs")
    add("--broker", choices=BROKERS, default="redis")
    add("--pool", choices=POOLS, default="prefork")
    add("--workers", type=int, choices=(2, 3, 4), help="by the seed unless given")
    add("--stock", dest="only", action="store_const", const="stock", help="plain Celery only")
    add("--no-stock", dest="only", action="store_const", const="fair", help="celery-fair only")
    add("--naive", default="", help="doubles of tests.apps.naive, to see the run fail")
    add("--output", type=Path, help="a new folder for journals and logs")
    add("--dry-run", action="store_true", help="print the plan, and do nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
