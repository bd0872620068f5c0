"""celery-fair as the ruler's contestants; importable where the ruler's folder is on the path."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fair import FairContestant
from mixed_load.contestant import WorkerCommand
from mixed_load.stock import Stock, stock_contestant


@dataclass(frozen=True)
class Fleet(FairContestant):
    """As many workers as slots, of one slot each: what a pod a process looks like."""

    name: str = "fleet"

    def worker_commands(self, slots: int, pool: str) -> list[WorkerCommand]:
        flags = ("--concurrency", "1", "--pool", pool)
        return [
            WorkerCommand(1, ("--hostname", f"one-slot-{number}@%h", *flags))
            for number in range(slots)
        ]


fair = FairContestant()
fair_reserve_1 = replace(fair, name="fair_reserve_1", settings={"reserve": 1})
fair_reserve_2 = replace(fair, name="fair_reserve_2", settings={"reserve": 2})
fleet = Fleet()


@dataclass(frozen=True)
class Pieces(FairContestant):
    """Batch tasks of many short pieces (`pieces_app`), with or without yielding between them."""

    name: str = "pieces"
    app_module: str = "tests.benchmarks.pieces_app"
    yields: bool = True


class PiecesStock(Stock):
    """The same tasks on plain Celery."""

    app_module = "tests.benchmarks.pieces_app"


pieces = Pieces()
pieces_whole = Pieces(name="pieces_whole", yields=False)
pieces_whole_reserve_0 = replace(pieces_whole, name="whole_reserve_0", settings={"reserve": 0})
pieces_reserve_0 = Pieces(name="pieces_reserve_0", settings={"reserve": 0})
pieces_fifo = PiecesStock(**vars(stock_contestant("fifo")))
