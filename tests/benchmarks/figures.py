"""The table of figures as data: what is run, and what must hold of it."""

from __future__ import annotations

from dataclasses import dataclass

from tests.benchmarks.judging import (
    Check,
    added_cpu_within,
    all_done,
    any_of,
    batch_share_at_least,
    connections_within,
    gap_within_batch_times,
    guaranteed_less_two_tasks,
    idle_cpu_within,
    nothing_lost,
    p95_at_most,
    p95_at_most_batch_times,
    p95_within,
    rate_at_least,
    rate_within,
    sensor_reads_within,
    slots_filled,
    throughput_within,
)

POOLS = ("threads", "prefork")
BROKERS = ("redis", "rabbitmq")

FIFO = "fifo"
STRICT = "two-queues-strict-late"
DEDICATED = "dedicated"
RESERVED = "reserved-slot-late"
IDEAL = "interactive-only"


@dataclass(frozen=True, slots=True)
class Run:
    """Contestants that are measured together, so that ratios come from one run.

    ``measure`` says by what: the ruler's ``mixed`` load (then ``scenario`` is one of its own), its
    ``noop`` tasks, the ``quiet`` load or the ``idle`` worker. ``beside`` is for the reader only.
    ``alone`` marks what measures CPU, and so nothing else may run meanwhile.
    """

    name: str
    measure: str
    contestants: tuple[str, ...]
    beside: tuple[str, ...] = ()
    scenario: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: all ``checks`` of it must hold on the run of that name."""

    run: str
    name: str
    checks: tuple[Check, ...]


RUNS = (
    Run(
        "steady", "mixed", (RESERVED, DEDICATED, "fair", "fair_reserve_2", IDEAL), (FIFO,), "steady"
    ),
    Run("bursts", "mixed", (RESERVED, "fair"), (FIFO, STRICT, IDEAL), "bursts"),
    Run(
        "monoliths",
        "mixed",
        (RESERVED, DEDICATED, "fair_reserve_1", "fair_reserve_2", IDEAL),
        ("fair",),
        "monoliths",
    ),
    Run("article", "mixed", (RESERVED, "fair"), (FIFO, STRICT, IDEAL), "article"),
    Run("flood", "mixed", ("fair", IDEAL), (RESERVED, FIFO), "flood"),
    Run("llm", "mixed", (RESERVED, "fair", "fair_reserve_1"), (DEDICATED,), "llm"),
    Run("fleet", "mixed", (FIFO, "fleet"), (IDEAL,), "steady"),
    Run("quiet", "quiet", ("fair",)),
    Run(
        "pieces",
        "pieces",
        ("pieces_fifo", "pieces_whole_reserve_0", "pieces_whole", "pieces", "pieces_reserve_0"),
    ),
    Run("noop", "noop", (FIFO, "fair"), alone=True),
    Run("idle", "idle", ("stock", "fair"), alone=True),
)


def _like_reserved_slot(run: str, ours: str) -> Figure:
    checks = (p95_within(ours, 1.15, RESERVED), rate_within(ours, 0.95, RESERVED))
    return Figure(run, f"{run}, {ours}", (*checks, nothing_lost(ours)))


def _like_dedicated(run: str) -> Figure:
    ours = "fair_reserve_2"
    interactive = any_of(p95_within(ours, 2, IDEAL), p95_at_most(ours, 0.010))
    checks = (interactive, rate_within(ours, 0.95, DEDICATED), nothing_lost(ours))
    return Figure(run, f"{run}, {ours}", checks)


FIGURES = (
    _like_reserved_slot("steady", "fair"),
    _like_reserved_slot("bursts", "fair"),
    _like_reserved_slot("monoliths", "fair_reserve_1"),
    _like_dedicated("steady"),
    _like_dedicated("monoliths"),
    Figure(
        "article",
        "article, fair",
        (
            p95_within("fair", 1, RESERVED),
            rate_within("fair", 0.8, RESERVED),
            nothing_lost("fair"),
        ),
    ),
    Figure(
        "flood",
        "flood, fair",
        (
            p95_within("fair", 2, IDEAL),
            all_done("fair"),
            guaranteed_less_two_tasks("fair", 0.2),
            gap_within_batch_times("fair", 3),
            nothing_lost("fair"),
        ),
    ),
    Figure(
        "llm",
        "llm, fair",
        (p95_at_most("fair", 1.0), rate_at_least("fair", 0.24), nothing_lost("fair")),
    ),
    Figure(
        "llm",
        "llm, fair_reserve_1",
        (
            p95_within("fair_reserve_1", 1.2, RESERVED),
            rate_within("fair_reserve_1", 0.95, RESERVED),
            nothing_lost("fair_reserve_1"),
        ),
    ),
    Figure(
        "fleet",
        "steady, eight workers of one slot",
        (
            p95_at_most_batch_times("fleet", 0.25),
            batch_share_at_least("fleet", 0.2),
            rate_within("fleet", 0.7, FIFO),
            nothing_lost("fleet"),
        ),
    ),
    Figure(
        "pieces",
        "pieces of 0.1 s, pieces",
        (
            p95_at_most("pieces", 0.2),
            rate_within("pieces", 0.97, "pieces_whole"),
            nothing_lost("pieces"),
        ),
    ),
    Figure(
        "pieces",
        "pieces of 0.1 s, pieces_reserve_0",
        (
            p95_at_most("pieces_reserve_0", 0.2),
            rate_within("pieces_reserve_0", 0.98, "pieces_fifo"),
            nothing_lost("pieces_reserve_0"),
        ),
    ),
    Figure("quiet", "nothing interactive for two minutes", (slots_filled("fair", 0.98),)),
    Figure(
        "noop",
        "no-op tasks",
        (
            throughput_within("fair", {"redis": 0.97, "rabbitmq": 0.93}, FIFO),
            added_cpu_within("fair", {"redis": 25.0, "rabbitmq": 40.0}, FIFO),
        ),
    ),
    Figure(
        "idle",
        "idle worker",
        (
            sensor_reads_within("fair", 4.0),
            idle_cpu_within("fair", 0.01, "stock"),
            connections_within("fair", 2, "stock"),
        ),
    ),
)


def figures_of(run: str) -> list[Figure]:
    """The figures that are read from this run."""
    return [figure for figure in FIGURES if figure.run == run]
