"""The simulator against reality: the ruler's loads on real workers, and the same ones simulated.

``python -m tests.benchmarks.simulator`` measures, simulates the very same arrivals and run times,
and prints both. ``--table-only`` simulates again beside what has been measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks import machine, ruler
from tests.benchmarks.agreement import TOLERANCE, Row, table, write_into
from tests.benchmarks.servers import own_server
from tests.benchmarks.servers import why_not as no_server

BUILD = ruler.ROOT / "build" / "simulator"
PAGE = ruler.ROOT / "docs" / "simulator.md"
SCENARIOS = ("steady", "bursts", "monoliths", "flood", "article", "llm")
CONTESTANTS = {
    "redis": ("fair", "fair_reserve_2", "fleet", "fifo", "two-queues", "two-queues-strict-late",
              "redis-priority-late", "dedicated", "reserved-slot-late"),
    "rabbitmq": ("fair", "fair_reserve_2", "fleet", "fifo", "rabbit-priority-late", "dedicated",
                 "reserved-slot-late"),
}  # fmt: skip


def main() -> int:
    options = _parser().parse_args()
    why = ruler.why_not() or next(filter(None, map(no_server, options.brokers)), None)
    if why:
        print(why)
        return 2
    sys.path.insert(0, str(ruler.folder()))
    BUILD.mkdir(parents=True, exist_ok=True)
    for broker in options.brokers:
        for scenario in options.only:
            if not options.table_only:
                print(f"{scenario} on {broker}", flush=True)
                _measure(scenario, broker, options)
    rows = [row for path in sorted(BUILD.glob("*.json")) for row in _rows(path)]
    text = table(rows)
    (BUILD / "agreement.md").write_text(text)
    print(text)
    if options.page:
        write_into(PAGE, text)
    return int(not all(row.holds for row in rows))


def _measure(scenario: str, broker: str, options: argparse.Namespace) -> None:
    names = options.contestants or CONTESTANTS[broker]
    document = BUILD / f"{scenario}-{broker}.ruler"
    began = machine.moment()
    with own_server(broker) as server:
        code = ruler.run(
            "mixed_load",
            f"--broker={server.broker.url}",
            f"--contestants={','.join(map(_spec, names))}",
            f"--scenario={scenario}",
            f"--rounds={options.rounds}",
            f"--pool={options.pool}",
            f"--json={document}",
            f"--log={BUILD / 'workers.log'}",
            output=BUILD / f"{scenario}-{broker}.txt",
        )
    if code:
        raise ruler.MeasuringError(f"the ruler ended with {code}; see {BUILD}")
    found = json.loads(document.read_text())["contestants"]
    measured = {name: _figures(found[_spec(name)]["pooled"]) for name in names}
    path = BUILD / f"{scenario}-{broker}.json"
    result: dict[str, Any] = {
        "scenario": scenario, "broker": broker, "pool": options.pool, "rounds": options.rounds,
        "began": began, "machine": machine.versions(), "measured": measured,
    }  # fmt: skip
    path.write_text(json.dumps(result, indent=1))


def _figures(pooled: dict[str, Any]) -> dict[str, float]:
    return {
        "p50": pooled["wait_p50"], "p95": pooled["wait_p95"], "batch": pooled["batch_per_second"]
    }  # fmt: skip


def _rows(path: Path) -> list[Row]:
    from tests.benchmarks.same_load import simulated

    result = json.loads(path.read_text())
    return [
        Row(
            result["scenario"], result["broker"], result["rounds"], name, measured,
            simulated(result["scenario"], result["broker"], name, result["rounds"]),
            result["began"]["load_average"][0],
        )
        for name, measured in result["measured"].items()
    ]  # fmt: skip


def _spec(name: str) -> str:
    return f"tests.benchmarks.contestants:{name}" if name.startswith(("fair", "fleet")) else name


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.simulator",
        description=f"Simulated waits and rates beside measured ones; bound {TOLERANCE:.0%}.",
    )
    add = parser.add_argument
    add("--only", type=_names, default=SCENARIOS, help="scenarios of the ruler, comma-separated")
    add("--brokers", type=_names, default=tuple(CONTESTANTS))
    add("--contestants", type=_names, help="default: all that are simulated")
    add("--rounds", type=int, default=5)
    add("--pool", default="threads")
    add("--table-only", action="store_true", help="simulate again beside what was measured")
    add("--page", action="store_true", help="write the table into docs/simulator.md")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
